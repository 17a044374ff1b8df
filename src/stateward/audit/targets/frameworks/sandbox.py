"""A room of the audit's own where a framework keeps its state: made, measured, and removed.

In PostgreSQL a schema with a mark, in Redis keys with a prefix and a time to live, else a file or
folder that was not there before. Frameworks need not know: nothing of theirs is imported here.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from stateward.audit.safety.isolation import PREFIX, remove_file
from stateward.audit.targets import TargetAddress
from stateward.audit.targets.frameworks import FOLDER, POSTGRES, REDIS, SQLITE, kind_of
from stateward.errors import InvalidInput

MARK = "made by stateward audit for a framework"
SECONDS = 3600  # after which a Redis server forgets what nobody removed
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "max_connections")
TIDY = 30_000  # milliseconds that removing a schema may wait for somebody's transaction


async def prepare(place: TargetAddress) -> bool:
    """Make the room; raises, and has made nothing, if somebody's data is there."""
    url = place.url or ""
    kind = kind_of(url)
    if kind == POSTGRES:
        await _create_schema(url, schema_of(place))
    elif kind == REDIS:
        async for key in _keys(url, f"{place.namespace}:"):
            raise InvalidInput(
                f"the namespace {place.namespace!r} holds data ({key!r}): leave --namespace out"
            )
    else:
        _refuse_existing(path_of(url))
    return True


async def clear(place: TargetAddress) -> None:
    """Remove the room and all that is in it. Only of one that `prepare` has made."""
    url = place.url or ""
    kind = kind_of(url)
    if kind == POSTGRES:
        await _drop_schemas(url, [schema_of(place)])
    elif kind == REDIS:
        await _drop_keys(url, f"{place.namespace}:")
    else:
        _remove(path_of(url))


async def clear_all(url: str) -> list[str]:
    """Remove what killed audits have left in a server; their names."""
    if kind_of(url) == POSTGRES:
        left = await _marked(url)
        await _drop_schemas(url, left)
        return left
    if kind_of(url) == REDIS:
        names = {key.partition(":")[0] async for key in _keys(url, PREFIX)}
        await _drop_keys(url, PREFIX)
        return sorted(names)
    raise InvalidInput("clean takes --url postgresql://… or redis://…; files are removed with rm")


async def describe(place: TargetAddress) -> dict[str, Any]:
    """How large the room is, and what its storage says of itself."""
    url = place.url or ""
    kind = kind_of(url)
    if kind == POSTGRES:
        return await _describe_postgres(url, schema_of(place))
    if kind == REDIS:
        return await _describe_redis(url, f"{place.namespace}:")
    return await asyncio.to_thread(_describe_file if kind == SQLITE else _describe_folder, url)


def file_of(place: TargetAddress) -> str | None:
    """The path of a framework's state, if that is one file."""
    if place.kind == "framework" and kind_of(place.url or "") == SQLITE:
        return path_of(place.url or "")
    return None


def is_folder(place: TargetAddress) -> bool:
    """Whether a framework's state is a folder of small files."""
    return place.kind == "framework" and kind_of(place.url or "") == FOLDER


def path_of(url: str) -> str:
    """The file or folder that a URL names."""
    return os.path.abspath(unquote(urlsplit(url).path.removeprefix("/")))


# --- PostgreSQL -------------------------------------------------------------------------


def schema_of(place: TargetAddress) -> str:
    return re.sub(r"[^a-z0-9_]", "_", place.namespace.lower())


def within(url: str, schema: str) -> str:
    """The same database, where names without a schema mean this one."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    asked = f'{options.get("options", "")} -c search_path="{schema}"'.strip()
    query = urlencode(options | {"options": asked}, quote_via=quote)
    return urlunsplit(parts._replace(scheme="postgresql", query=query))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    import psycopg

    try:
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise InvalidInput(f"the database cannot be reached: {error}") from error
    async with connection:
        yield connection


async def _create_schema(url: str, schema: str) -> None:
    import psycopg

    async with _connected(url) as connection:
        try:
            async with connection.transaction():
                await connection.execute(f'CREATE SCHEMA "{schema}"')
                await connection.execute(f"COMMENT ON SCHEMA \"{schema}\" IS '{MARK}'")
        except psycopg.errors.DuplicateSchema as error:
            raise InvalidInput(
                f"the schema {schema!r} is there already: an audit works in a schema of its own; "
                "leave --namespace out"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise InvalidInput(
                "an audit works in a schema of its own, and this role may not create one: "
                "GRANT CREATE ON DATABASE … TO …, or audit another database"
            ) from error


async def _drop_schemas(url: str, schemas: list[str]) -> None:
    async with _connected(url) as connection:
        await connection.execute(f"SET lock_timeout = {TIDY}")
        for schema in schemas:
            await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


async def _marked(url: str) -> list[str]:
    query = (
        "SELECT nspname FROM pg_namespace "
        "WHERE obj_description(oid, 'pg_namespace') = %s ORDER BY nspname"
    )
    async with _connected(url) as connection:
        return [row[0] for row in await (await connection.execute(query, [MARK])).fetchall()]


async def _describe_postgres(url: str, schema: str) -> dict[str, Any]:
    size = (
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
    )
    async with _connected(url) as connection:
        (taken,) = await (await connection.execute(size, [schema])).fetchone()
        named = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
        rows = await (await connection.execute(named, [list(SETTINGS)])).fetchall()
        version = connection.info.server_version
    return {
        "engine": "postgresql",
        "version": f"{version // 10_000}.{version % 10_000}",
        "bytes": taken,
        "settings": dict(rows),
    }


# --- Redis ------------------------------------------------------------------------------


@asynccontextmanager
async def _redis(url: str) -> AsyncIterator[Any]:
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    client = Redis.from_url(url)
    try:
        yield client
    except RedisError as error:
        raise InvalidInput(f"the server cannot be asked: {error}") from error
    finally:
        await client.aclose()


async def _keys(url: str, prefix: str) -> AsyncIterator[str]:
    """Those that begin so, in small steps: a server with much else is not held up."""
    async with _redis(url) as client:
        async for key in client.scan_iter(match=f"{_literal(prefix)}*", count=1000):
            yield key.decode()


def _literal(prefix: str) -> str:
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", prefix)


async def _drop_keys(url: str, prefix: str) -> None:
    found = [key async for key in _keys(url, prefix)]
    async with _redis(url) as client:
        for first in range(0, len(found), 100):
            await client.unlink(*found[first : first + 100])


async def _describe_redis(url: str, prefix: str) -> dict[str, Any]:
    from redis.exceptions import ResponseError

    async with _redis(url) as client:
        taken = 0
        async for key in client.scan_iter(match=f"{_literal(prefix)}*", count=1000):
            taken += await client.memory_usage(key) or 0
        info = await client.info()
        try:
            config = await client.config_get("append*")
        except ResponseError:
            config = {}  # managed servers tell nothing, and the report says so
    most = int(info.get("maxmemory", 0))
    return {
        "engine": "redis",
        "version": str(info.get("valkey_version") or info.get("redis_version")),
        "bytes": taken,
        "capacity": most or None,
        "settings": {
            "appendonly": "yes" if int(info.get("aof_enabled", 0)) else "no",
            "appendfsync": _text(config.get("appendfsync", config.get(b"appendfsync"))),
            "maxmemory": most,
            "maxmemory_policy": info.get("maxmemory_policy", "unknown"),
            "used_memory": int(info.get("used_memory", 0)),
        },
    }


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or "unknown"


# --- files ------------------------------------------------------------------------------


def _refuse_existing(path: str) -> None:
    if os.path.isfile(path) or (os.path.isdir(path) and os.listdir(path)):
        raise InvalidInput(
            f"{path} is there already: an audit works in a place of its own; name one that does "
            "not exist yet, or leave --url out"
        )


def _remove(path: str) -> None:
    """A file with those that SQLite keeps beside it, or a folder."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    remove_file(path)


def _describe_file(url: str) -> dict[str, Any]:
    path = path_of(url)
    # None of these frameworks sets `synchronous`: what a new connection says is what theirs have.
    with closing(sqlite3.connect(path)) as connection:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    taken = sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))
    return {
        "engine": "sqlite",
        "version": sqlite3.sqlite_version,
        "bytes": taken,
        "capacity": taken + shutil.disk_usage(os.path.dirname(path)).free,
        "settings": {"journal_mode": journal, "synchronous": str(synchronous)},
    }


def _describe_folder(url: str) -> dict[str, Any]:
    path = Path(path_of(url))
    path.mkdir(parents=True, exist_ok=True)
    taken = sum(file.stat().st_size for file in path.rglob("*.json"))
    return {
        "engine": "files",
        "version": "",
        "bytes": taken,
        "capacity": taken + shutil.disk_usage(path).free,
        "settings": {},
    }
