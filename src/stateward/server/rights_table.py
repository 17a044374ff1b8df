"""The table of all rights: which routes and actions need each, and which roles have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from stateward.actions.rights import BUILT_IN, NAMES, OWN, ROLE_OF, Only, Role, least_roles, role
from stateward.actions.table import ACTIONS
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput
from stateward.server.asker import Asker
from stateward.server.rest_routes import ROUTES
from stateward.wire import EXECUTE, STORE, WAIT

METRICS, REFUSALS = "/metrics", "/v1/refusals"
TOOLS, WRITING_TOOLS = "/mcp", "/mcp/write"


class Row(NamedTuple):
    """Something that can be asked for, and the right that it needs."""

    name: str  # an action, or a method and path
    right: str
    least: str
    for_one_user: bool
    purpose: str


# What agents, monitoring and models ask for, which are no routes of the REST API.
SERVICE = {
    ("POST", EXECUTE): Row(
        *(f"POST {EXECUTE}", "store.execute", "reader", False),
        "Execute operations, as agents do; those that write need more",
    ),
    ("POST", WAIT): Row(f"POST {WAIT}", "store.wait", "reader", True, "Wait for changes"),
    ("GET", STORE): Row(f"GET {STORE}", "store.read", "reader", False, "Describe the store"),
    ("GET", METRICS): Row(
        f"GET {METRICS}", "metrics.read", "operator", False, "Get figures for Prometheus"
    ),
    ("GET", REFUSALS): Row(
        f"GET {REFUSALS}", "refusals.read", "operator", False, "List who was refused"
    ),
    ("POST", TOOLS): Row(
        f"POST {TOOLS}", "mcp.read", "reader", True, "Call MCP tools that only read"
    ),
    ("POST", WRITING_TOOLS): Row(
        f"POST {WRITING_TOOLS}", "mcp.write", "agent", True, "Call MCP tools"
    ),
}


@cache
def rows() -> tuple[Row, ...]:
    """Return what can be asked for, in the order of the reference."""
    of_routes = (
        Row(f"{each.method} {each.path}", each.right, each.least, each.one_users, each.purpose)
        for each in ROUTES
    )
    of_actions = (
        Row(each.name, each.right, each.role, each.for_one_user, each.purpose) for each in ACTIONS
    )
    return (*of_routes, *of_actions, *SERVICE.values())


LEAST: Mapping[str, str] = least_roles((row.right, row.least) for row in rows())


# --- roles of one's own -----------------------------------------------------------------


class RoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role as `serve.toml` has it: its rights, and the names that it is narrowed to."""

    rights: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    signals: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None
    by_hand: bool = True  # False: programs have it, whose changes are not in the operations log


def roles_of(settings: Mapping[str, RoleSettings]) -> dict[str, Role]:
    """Return all roles by name. Raises `InvalidInput` for a right that nothing needs."""
    roles = {"auditor": BUILT_IN["auditor"]}
    nouns = {right.partition(".")[0] for right in LEAST}
    for name, each in settings.items():
        if name in (*NAMES, *ROLE_OF):
            raise InvalidInput(f"the role {name!r} is built in: give yours another name")
        for right in each.rights:
            is_noun = right.endswith(".*") and right.removesuffix(".*") in nouns
            if not (is_noun or right in LEAST or right in ROLE_OF.values()):
                raise InvalidInput(
                    f"[roles.{name}]: nothing needs the right {right!r}"
                    f"{did_you_mean(right, LEAST)}; see docs/reference/rights.md"
                )
        only = Only(kinds=each.kinds, signals=each.signals, documents=each.documents)
        roles[name] = role(name, *each.rights, only=only, by_hand=each.by_hand)
    return roles


def rights_of(asker: Asker) -> list[str]:
    """Return the rights that a key has, by name."""
    theirs = {
        row.right
        for row in rows()
        if asker.has_right(row.right, row.least) and (asker.user is None or row.for_one_user)
    }
    return sorted(theirs - {OWN})


# --- whether a key may ------------------------------------------------------------------


def explained(asker: Asker, asked: str) -> tuple[bool, str]:
    """Return whether a key may do something, and why, in a sentence.

    It is the name of an action, a method and path, or a right. Raises `InvalidInput` for none.
    """
    matching = [row for row in rows() if asked in (row.name, row.right)]
    if not matching:
        names = [name for row in rows() for name in (row.name, row.right)]
        raise InvalidInput(
            f"{asked!r} is no action, route or right{did_you_mean(asked, names)}; see "
            "docs/reference/rights.md"
        )
    row = next((each for each in matching if each.for_one_user), matching[0])
    if not asker.has_right(row.right, row.least):
        if asker.only and asker.has_right_unnarrowed(row.right, row.least):
            return False, f"{row.right} shows everything, and the key is only for {_names(asker)}"
        theirs = f"the key has the role {asker.role_name}"
        return False, f"it needs the right {row.right}, which {_having(row)} have; {theirs}"
    if asker.user is not None and not row.for_one_user:
        return False, f"{row.right} is about more than one user, and the key is for one user"
    parts = [f"the key has the role {asker.role_name}, which has the right {row.right}"]
    if asker.user is not None:
        parts.append(f"only what belongs to the user {asker.user!r}")
    if asker.namespaces is not None:
        parts.append(f"only in {', '.join(map(repr, sorted(asker.namespaces)))}")
    if asker.only:
        parts.append(f"only {_names(asker)}")
    return True, "; ".join(parts)


def _having(row: Row) -> str:
    names = [each for each in NAMES if _has(each, row)]
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"


def _has(name: str, row: Row) -> bool:
    if name == "device":
        return row.for_one_user and _has("agent", row)
    stored = {own: scope for scope, own in ROLE_OF.items()}.get(name, name)
    return BUILT_IN[stored].has(row.right, row.least)


def _names(asker: Asker) -> str:
    return " and ".join(
        f"{what} {', '.join(map(repr, getattr(only, what)))}"
        for only in asker.only
        for what in Only.__struct_fields__
        if getattr(only, what) is not None
    )


# --- the reference ----------------------------------------------------------------------


def page() -> str:
    """Return the table of the reference: each right, who has it, and what needs it."""
    lines = [f"| right | {' | '.join(NAMES)} | needed by |"]
    lines.append(f"| --- |{' --- |' * (len(NAMES) + 1)}")
    for right in sorted(LEAST):
        of_it = [row for row in rows() if row.right == right]
        cells = [_cell(name, of_it) for name in NAMES]
        asked = ", ".join(f"`{row.name}`" for row in of_it)
        lines.append(f"| `{right}` | {' | '.join(cells)} | {asked} |")
    return "\n".join(lines)


def _cell(name: str, of_it: Iterable[Row]) -> str:
    having = [_has(name, row) for row in of_it]
    return "yes" if all(having) else "in part" if any(having) else ""
