"""Actions on users: all that belongs to one, handed out or erased."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated, Any

from msgspec import Struct

from stateward.actions.action import UNLOGGED_LIST, ActionCall, Actions, Cli, Rest
from stateward.actions.arguments import ID, After, Arguments, Limit
from stateward.actions.page import Page
from stateward.kinds import USER
from stateward.ops import List, Listed
from stateward.records import ErasureReceipt
from stateward.wire import LINES

PIECE = 1 << 16  # bytes of an export that are sent in one piece


class OneUser(Arguments, frozen=True):
    """Which user."""

    user: Annotated[str, ID]


class ListUsers(Arguments, frozen=True):
    """Some of those who have anything here, by id."""

    limit: Limit = 100
    after: After = None


class UserShown(Struct, frozen=True):
    """A user who owns anything here, and how much."""

    id: str
    entities: int


class UserKinds(Struct, frozen=True):
    """How much a user has, by kind."""

    id: str
    kinds: dict[str, int]


async def _kinds(call: ActionCall) -> UserKinds:
    return UserKinds(call.arguments.user, dict(await call.store.counts(call.arguments.user)))


USERS = Actions(USER, _kinds, before=("kinds",))


@USERS.read(
    "list",
    ListUsers,
    Page[UserShown],
    right="users.list",
    role="operator",
    about="",
    unlogged=UNLOGGED_LIST,
    rest=Rest("GET /v1/users"),
)
async def _list(call: ActionCall) -> Page[UserShown]:
    """List users by id."""
    asked: ListUsers = call.arguments
    scope = call.store.sections["users"]
    op = List(scope.namespace, tally="owner", after=asked.after, limit=asked.limit)
    listed = (await scope.execute((op,)))[0]
    assert isinstance(listed, Listed)
    return Page([UserShown(id, count) for id, count in listed.tally.items()], listed.next)


@USERS.read(
    "show",
    OneUser,
    UserKinds,
    unlogged="it counts what there is",
    for_one_user=True,
    rest=Rest("GET /v1/users/{user}"),
)
async def _show(call: ActionCall) -> UserKinds | None:
    """Count what a user has, by kind."""
    if call.principal.user not in (None, call.arguments.user):
        return None
    shown = await _kinds(call)
    return shown if shown.kinds else None


@USERS.read(
    "export",
    OneUser,
    str,
    right="users.export",
    role="operator",
    log="user export",
    rest=Rest("GET /v1/users/{user}/export", gives=LINES),
)
async def _export(call: ActionCall) -> AsyncGenerator[bytes, None]:
    """Export everything that belongs to a user, one JSON object per line."""
    offload = call.store.sections["users"].world.offload
    folder = await offload(mkdtemp, None, "stateward-export-")
    try:
        path = os.path.join(folder, "export.jsonl")
        await call.store.user(call.arguments.user).export(path)
        file = await offload(open, path, "rb")
    finally:
        await offload(rmtree, folder, True)  # an open file stays until it is closed
    return _pieces(file, offload)


async def _pieces(file: Any, offload: Callable[..., Any]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := await offload(file.read, PIECE):
            yield piece


@USERS.change(
    "erase",
    OneUser,
    ErasureReceipt,
    makes_room=True,
    rest=Rest("POST /v1/users/{user}/erase"),
    cli=Cli(
        """\
Removes everything that stateward user export would write. Neither a write in flight nor restoring a
backup brings it back. This cannot be undone. After a failure, run it again: it continues. If
threads, users and workflows live in several stores, or each replica has its own, run it for each of
them. Keep what it prints as a receipt: it contains no content.

examples:
  stateward user erase sqlite:///agents.db u-42 --dry-run
  stateward user erase sqlite:///agents.db u-42
  stateward user erase sqlite:///agents.db u-42 --yes --json"""
    ),
)
async def _erase(call: ActionCall) -> ErasureReceipt:
    """Permanently remove everything that belongs to a user."""
    return await call.store.user(call.arguments.user).erase()
