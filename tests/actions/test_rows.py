"""A row that leaves out its right, its bounds or its entry in the log cannot be made."""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from stateward.actions import arguments
from stateward.actions.action import ROLES, Action, ActionCall, Actions
from stateward.actions.arguments import Id, Many
from stateward.actions.rights import DEVICE, LEAST, RIGHTS
from stateward.actions.table import ACTIONS
from stateward.errors import InvalidInput
from stateward.server.rest_routes import ROUTES


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
    assert all(re.fullmatch(r"[a-z]+s\.[a-z_]+", row.right) for row in ACTIONS)
    for lower, higher in itertools.pairwise(ROLES):
        assert RIGHTS[lower] <= RIGHTS[higher]
    assert RIGHTS["admin"] == set(LEAST)
    assert RIGHTS["agent"] >= DEVICE


def test_a_route_needs_the_scope_that_has_its_right() -> None:
    roles = dict(zip(("read", "write", "operate", "admin"), ROLES, strict=True))
    for route in ROUTES:
        if route.action is not None:
            assert route.action.right in RIGHTS[roles[route.scope]]
            assert route.one_users == route.action.for_one_user
            below = ROLES[: ROLES.index(roles[route.scope])]
            assert all(route.action.right not in RIGHTS[role] for role in below)
