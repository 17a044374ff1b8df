"""Where a text is still found: in files, in the keys of a Redis, in the tables of a PostgreSQL.

What a server shows is searched, not what its files hold: those of a server of the audit's own are
searched by `servers`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, cast

from stateward.engine import Reached
from stateward.engines.registry import create_engine
from stateward.engines.url import EngineURL
from stateward.errors import StoreUnavailable
from stateward.world import World

PAGE = 500  # keys at once
READ: dict[bytes, tuple[str, ...]] = {  # how all of a key of a type is read
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"set": ("SMEMBERS",),
    b"list": ("LRANGE", "0", "-1"),
    b"zset": ("ZRANGE", "0", "-1"),
    b"stream": ("XRANGE", "-", "+"),
}


def in_files(files: Iterable[Path], text: str) -> list[str]:
    return [file.name for file in files if file.is_file() and text.encode() in file.read_bytes()]


def beside(path: str) -> list[Path]:
    """A file, and those whose names begin with its own."""
    folder, name = os.path.split(path)
    return [Path(folder, each) for each in os.listdir(folder) if each.startswith(name)]


def below(*folders: str) -> list[Path]:
    walks = (walk for folder in folders for walk in os.walk(folder))
    return [Path(where, name) for where, _, names in walks for name in names]


async def in_redis(url: EngineURL, text: str) -> list[str]:
    """The keys that have it in their name or in their value, on any of its servers."""
    from stateward.engines.redis.client.connection import Connection
    from stateward.engines.redis.client.server import Address
    from stateward.engines.redis.settings import parse_server

    server, engine = parse_server(url, World()), cast(Reached, create_engine(url, World()))
    addresses = [Address(*each) for each in await engine.addresses()] or server.addresses
    found: list[str] = []
    for address in addresses:
        connection = Connection(server, address)
        try:
            await connection.connect()
        except StoreUnavailable:
            continue  # a sentinel, which has no keys, or a replica that is away
        try:
            found += await _keys(connection.ask, text.encode())
        finally:
            await connection.close()
    return sorted(set(found))


async def _keys(ask: Callable[..., Awaitable[list[Any]]], sought: bytes) -> list[str]:
    from stateward.engines.redis.keys import ROOT

    found, cursor = list[str](), b"0"
    while True:
        (page,) = await ask(("SCAN", cursor, "MATCH", f"{ROOT}*", "COUNT", f"{PAGE}"))
        if not isinstance(page, list):
            return found  # it cannot be asked this
        cursor, keys = page
        types = await ask(*(("TYPE", key) for key in keys)) if keys else []
        asked = [(key, READ[kind]) for key, kind in zip(keys, types, strict=True) if kind in READ]
        reads = [(how[0], key, *how[1:]) for key, how in asked]
        values = await ask(*reads) if reads else []
        for (key, _), value in zip(asked, values, strict=True):
            if sought in key or _has(value, sought):
                found.append(key.decode(errors="replace"))
        if cursor == b"0":
            return found


def _has(value: Any, sought: bytes) -> bool:
    if isinstance(value, list):
        return any(_has(each, sought) for each in value)
    return isinstance(value, bytes) and sought in value


async def in_postgres(url: EngineURL, text: str) -> list[str]:
    """The tables of the schema that have it in a row, also in one that no call returns any more."""
    from psycopg import AsyncConnection
    from psycopg.sql import SQL, Identifier

    from stateward.engines.postgres.settings import read_settings

    settings, found = read_settings(url, World()), []
    async with await AsyncConnection.connect(**settings.connect_arguments()) as connection:
        asked = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        tables = await (await connection.execute(asked, (settings.schema,))).fetchall()
        for (table,) in tables:
            query = SQL("SELECT 1 FROM {} AS t WHERE strpos(t::text, %s) > 0 LIMIT 1")
            named = query.format(Identifier(settings.schema, table))
            if await (await connection.execute(named, (text,))).fetchone():
                found.append(table)
    return found
