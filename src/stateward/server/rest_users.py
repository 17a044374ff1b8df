"""The REST API of users: all that belongs to one, handed out or erased."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from stateward.kinds import USER
from stateward.records import ErasureReceipt
from stateward.server.reply import Reply
from stateward.server.rest import LINES, answer
from stateward.server.route import RestCall, RestRoute, RouteDeed

PIECE = 1 << 16  # bytes of an export that are sent at once


async def _export(call: RestCall) -> Reply:
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


async def _erase(call: RestCall) -> Reply:
    return answer(await call.store.user(call.path["user"]).erase())


USERS = (
    RestRoute(
        "GET",
        "/v1/users/{user}/export",
        "operate",
        _export,
        "All that belongs to a user, one JSON object a line",
        str,
        gives=LINES,
        one_users=False,
        deed=RouteDeed("user export", USER, "user", reads=True),
    ),
    RestRoute(
        "POST",
        "/v1/users/{user}/erase",
        "operate",
        _erase,
        "Remove all that belongs to a user, for good",
        ErasureReceipt,
        one_users=False,
        deed=RouteDeed("user erase", USER, "user", makes_room=True),
    ),
)
