"""Rights and roles: who may ask for which action.

A row of a table names the right that it needs, such as workflows.cancel, and the least of four
roles that has it. Each of the four may do what those before it may. A role of one's own is a set
of rights, and can be narrowed to names. Whatever a role does not list is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from stateward.codec import shown
from stateward.errors import InvalidInput, NotPermitted

RIGHT = re.compile(r"[a-z]+\.[a-z_]+")
ROLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
ROLES = ("reader", "agent", "operator", "admin")  # each may do what those before it may
OWN = "service.about"  # each role has it: what the key itself may, and the API's description
AUDITED = ("log", "audits", "signals")  # the nouns that say nothing of conversations
# The scopes of keys and tokens are the four roles under their first names.
ROLE_OF = dict(zip(("read", "write", "operate", "admin"), ROLES, strict=True))
SCOPE_OF = {role: scope for scope, role in ROLE_OF.items()}
# Rights to what holds state of every kind and name: none of them can be narrowed to names.
WIDE = frozenset(
    ("store.execute", "store.wait", "changes.read", "find.read", "storage.read", "users.export")
)


class Only(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The names that a role or a key is narrowed to; None: any.

    `kinds` are of workflows, with their questions and schedules; `signals` are sent to workflows,
    be it as an answer; `documents` are users' and shared ones.
    """

    kinds: tuple[str, ...] | None = None
    signals: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None

    @property
    def narrows(self) -> bool:
        return self != Only()

    def allows(self, noun: str, thing: Any) -> bool:
        """Return whether the names of a thing, or of what is asked for, are among these."""
        return all(name is None or self.has(what, name) for what, name in _names_of(noun, thing))

    def has(self, what: str, name: str) -> bool:
        names: tuple[str, ...] | None = getattr(self, what)
        return names is None or name in names

    def require(self, noun: str, thing: Any) -> None:
        """Raise `NotPermitted` for a thing with a name that is not among these."""
        for what, name in _names_of(noun, thing):
            if name is not None and not self.has(what, name):
                raise NotPermitted(
                    f"this key is only for certain {what}, and {shown(name)} is none of them"
                )


KIND_OF = {"workflow": "kind", "question": "kind", "kind": "kind", "schedule": "workflow"}


def _names_of(noun: str, thing: Any) -> Iterable[tuple[str, str | None]]:
    """Return the names of a thing that can be narrowed; None: it has none, or says none."""
    yield "kinds", getattr(thing, KIND_OF.get(noun, ""), None)
    yield "signals", getattr(thing, "signal", None)


class Role(NamedTuple):
    """A set of rights. The name of one of the four roles stands for all that it may."""

    name: str
    rights: frozenset[str]  # rights, roles, and nouns as in threads.*
    level: int = -1  # which of the four roles are among the rights, as their last index
    only: Only = Only()
    by_hand: bool = True  # people have it: the operations log says what they do

    def has(self, right: str, least: str) -> bool:
        """Return whether the role has a right, of which `least` is the least of the four roles."""
        if ROLES.index(least) <= self.level or right == OWN:
            return True
        return right in self.rights or f"{right.partition('.')[0]}.*" in self.rights


def role(name: str, *rights: str, only: Only | None = None, by_hand: bool = True) -> Role:
    """Make a role. Raises `InvalidInput` for a name or a right that is not written like one."""
    if ROLE_NAME.fullmatch(name) is None:
        raise InvalidInput(f"the name of a role has small letters, digits and -, not {shown(name)}")
    for right in rights:
        if right not in ROLES and RIGHT.fullmatch(right.replace(".*", ".all")) is None:
            raise InvalidInput(
                f"the role {name!r} lists {shown(right)}: write a right such as threads.read, a "
                f"noun such as threads.*, or a role ({', '.join(ROLES)})"
            )
    level = max((ROLES.index(each) for each in rights if each in ROLES), default=-1)
    return Role(name, frozenset(rights), level, only or Only(), by_hand)


BUILT_IN = {
    **{SCOPE_OF[name]: role(name, name, by_hand=name in ("operator", "admin")) for name in ROLES},
    "auditor": role("auditor", *(f"{noun}.read" for noun in AUDITED)),
}
# Names of roles as --role and tokens have them, and how they are stored. A device's is that of an
# agent for one user: rows say which of its rights can be asked for by one user alone.
STORED_AS = {**SCOPE_OF, "device": "write"}
NAMES = ("reader", "device", "agent", "operator", "auditor", "admin")


def least_roles(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the least role of each right; raises `InvalidInput` if rows disagree."""
    roles: dict[str, str] = {}
    for right, least in rows:
        if roles.setdefault(right, least) != least:
            raise InvalidInput(f"the right {right!r} has two least roles: give it a second name")
    return roles
