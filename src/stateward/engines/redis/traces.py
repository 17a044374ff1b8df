"""Search of all keys for a text, to prove that an erased text is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.keys import ROOT
from stateward.errors import StoreUnavailable

PAGE = 500  # keys at once
READ: dict[bytes, tuple[str, ...]] = {  # commands that read a whole key, by type
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"set": ("SMEMBERS",),
    b"list": ("LRANGE", "0", "-1"),
    b"zset": ("ZRANGE", "0", "-1"),
    b"stream": ("XRANGE", "-", "+"),
}


async def traces(server: Server, addresses: Iterable[Address], text: str) -> list[str]:
    """Return the keys on any server with the text in their name or in their value.

    What could not be searched raises: that nothing was found there says nothing.
    """
    names: set[str] = set()
    searched = 0
    for address in addresses:
        connection = Connection(server, address)
        try:
            await connection.connect()
            if server.cluster:
                await connection.ask(("READONLY",))  # a replica, too, is to show what it has
            names.update(await _keys(connection, text.encode()))
            searched += 1
        except StoreUnavailable:
            if not server.service:  # sentinels have no keys, and a replica is enough
                raise
        finally:
            await connection.close()
    if not searched:
        raise StoreUnavailable("no server could be searched", applied="no")
    return sorted(names)


async def _keys(connection: Connection, sought: bytes) -> list[str]:
    names, cursor = list[str](), b"0"
    while True:
        page = (await _asked(connection, ("SCAN", cursor, "MATCH", f"{ROOT}*", "COUNT", PAGE)))[0]
        cursor, keys = page
        types = await _asked(connection, *(("TYPE", key) for key in keys))
        read = [(key, READ[kind]) for key, kind in zip(keys, types, strict=True) if kind in READ]
        values = await _asked(connection, *((how[0], key, *how[1:]) for key, how in read))
        for (key, _), value in zip(read, values, strict=True):
            if sought in key or _has(value, sought):
                names.append(key.decode(errors="replace"))
        if cursor == b"0":
            return names


async def _asked(connection: Connection, *commands: Any) -> list[Any]:
    replies = await connection.ask(*commands) if commands else []
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise StoreUnavailable(f"it cannot be searched: {reply}", applied="no")
    return replies


def _has(value: Any, sought: bytes) -> bool:
    if isinstance(value, list):
        return any(_has(each, sought) for each in value)
    return isinstance(value, bytes) and sought in value
