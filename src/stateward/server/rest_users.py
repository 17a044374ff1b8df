"""The REST API of users: all that belongs to one, handed out or erased."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from msgspec import Struct

from stateward.actions.page import Page
from stateward.ops import List, Listed
from stateward.records import ErasureReceipt
from stateward.server.reply import Reply
from stateward.server.rest import LINES, Limit, answer, linked, missing
from stateward.server.route import RestCall, Routes

PIECE = 1 << 16  # bytes of an export that are sent in one piece


class UsersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Some of those who have anything here, by id."""

    limit: Limit = 100
    after: str | None = None


class UserShown(Struct, frozen=True):
    """A user who owns anything here, and how much."""

    id: str
    entities: int


class UserKinds(Struct, frozen=True):
    """How much a user has, by kind."""

    id: str
    kinds: dict[str, int]


USERS = Routes()


@USERS.route("GET /v1/users", "operate", Page[UserShown], UsersQuery, one_users=False)
async def _users(call: RestCall) -> Reply:
    """List users by id."""
    query: UsersQuery = call.query
    scope = call.store.sections["users"]
    op = List(scope.namespace, tally="owner", after=query.after, limit=query.limit)
    listed = (await scope.execute((op,)))[0]
    assert isinstance(listed, Listed)
    users = [UserShown(id, count) for id, count in listed.tally.items()]
    return answer(Page(users, listed.next), headers=linked(call, listed.next))


@USERS.route("GET /v1/users/{user}", "read", UserKinds)
async def _user(call: RestCall) -> Reply:
    """Count what a user has, by kind."""
    id = call.path["user"]
    if call.asker.user not in (None, id):
        raise missing("user", id)
    kinds = await call.store.counts(id)
    if not kinds:
        raise missing("user", id)
    return answer(UserKinds(id, kinds))


@USERS.logged("user export", reads=True)
@USERS.route("GET /v1/users/{user}/export", "operate", str, gives=LINES, one_users=False)
async def _export(call: RestCall) -> Reply:
    """Export everything that belongs to a user, one JSON object per line."""
    offload = call.store.sections["users"].world.offload
    folder = await offload(mkdtemp, None, "stateward-export-")
    try:
        path = os.path.join(folder, "export.jsonl")
        await call.store.user(call.path["user"]).export(path)
        file = await offload(open, path, "rb")
    finally:
        await offload(rmtree, folder, True)  # an open file stays until it is closed
    return Reply(200, headers={"content-type": LINES}, events=_pieces(file, offload))


async def _pieces(file: Any, offload: Callable[..., Any]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := await offload(file.read, PIECE):
            yield piece


@USERS.logged("user erase", makes_room=True)
@USERS.route("POST /v1/users/{user}/erase", "operate", ErasureReceipt, one_users=False)
async def _erase(call: RestCall) -> Reply:
    """Permanently remove everything that belongs to a user."""
    return answer(await call.store.user(call.path["user"]).erase())
