"""A row that leaves out its right, its bounds or its entry in the log cannot be made."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from stateward.actions import arguments
from stateward.actions.action import Action, ActionCall, Actions
from stateward.actions.arguments import Id, Many
from stateward.actions.rights import BUILT_IN, ROLE_OF, ROLES, least_roles
from stateward.actions.table import ACTIONS
from stateward.errors import InvalidInput
from stateward.mcp.tools import TOOLS
from stateward.server.rest_routes import ROUTES
from stateward.server.rights_table import LEAST, rows
from stateward.server.route import Routes


class Whole(Struct, frozen=True):
    """Which one."""

    thing: Id


class Endless(Struct, frozen=True):
    """A text without a bound, a list without one, and bounded ones."""

    thing: Id
    text: str
    items: list[int]
    few: Annotated[list[Any], Many(3)]
    number: Annotated[int, Meta(ge=1)]
    other: Annotated[str, "What it is for."] | None = None


async def _handler(_: ActionCall) -> None:
    """Do something to a thing."""


async def _silent(_: ActionCall) -> None: ...


def made(handler: Any = _handler, arguments: type[Struct] = Whole, **options: Any) -> Action:
    rows = Actions("thing")
    rows.change("break", arguments, None, **options)(handler)
    return rows["break"]


def test_a_whole_row_is_made() -> None:
    row = made()
    assert (row.purpose, row.log, row.about) == ("Do something to a thing", "thing break", "thing")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"right": ""}, "needs a right"),
        ({"right": "Threads"}, "needs a right"),
        ({"role": "boss"}, "needs a role"),
        ({"log": None}, "needs log"),
        ({"log": "thing break", "unlogged": "why"}, "needs log"),
        ({"logs": ("text",)}, "logs an argument"),
        ({"about": "other"}, "about an argument"),
        ({"about": ""}, "has no about"),
        ({"handler": _silent}, "has no purpose"),
        ({"arguments": Endless}, "has no bound for text, items, other"),
    ],
)
def test_an_incomplete_row_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        made(**options)


def test_arguments_out_of_bounds_are_refused_by_their_name() -> None:
    good = Endless(thing="t", text="", items=[], few=[1], number=1)
    arguments.check(good)
    for name, value in (("thing", ""), ("thing", "x" * 100_000), ("few", [1] * 4), ("number", 0)):
        changed = {field: getattr(good, field) for field in good.__struct_fields__} | {name: value}
        with pytest.raises(InvalidInput, match=rf"^{name} "):
            arguments.check(Endless(**changed))


def test_rights_are_named_alike_and_each_role_has_those_before_it() -> None:
    assert all(re.fullmatch(r"([a-z]+s|log)\.[a-z_]+", row.right) for row in ACTIONS)
    for right, least in LEAST.items():
        having = [BUILT_IN[scope].has(right, least) for scope in ROLE_OF]
        assert having == [ROLES.index(name) >= ROLES.index(least) for name in ROLES]


def test_a_right_that_rows_give_to_different_roles_is_refused() -> None:
    with pytest.raises(InvalidInput, match="two least roles"):
        least_roles([("threads.read", "reader"), ("threads.read", "operator")])


@pytest.mark.parametrize(("right", "scope"), [("", "read"), ("Threads", "read"), (None, "reader")])
def test_a_route_without_a_right_or_a_scope_is_refused(right: str | None, scope: str) -> None:
    rows = Routes("things")
    options: Any = {} if right is None else {"right": right}
    with pytest.raises(InvalidInput, match="needs a right"):
        rows.route("GET /v1/things", scope, None, **options)
    with pytest.raises(TypeError):
        Routes()  # type: ignore[call-arg]


def test_a_route_needs_the_scope_that_has_its_right() -> None:
    for route in ROUTES:
        assert LEAST[route.right] == ROLE_OF[route.scope], route.path
        if route.action is not None:
            assert route.action.right == route.right
            assert route.one_users == route.action.for_one_user


def test_tools_need_rights_of_the_table() -> None:
    for tool in TOOLS:
        right, least = tool.needs
        assert LEAST[right] == least, tool.name


def test_every_row_of_the_table_names_a_right_and_what_it_is_for() -> None:
    assert len({row.name for row in rows()}) == len(rows())
    assert all(row.purpose for row in rows())
