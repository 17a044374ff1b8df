"""A sandbox: where a framework keeps its state during an audit. It is made, measured and removed.

In PostgreSQL a schema with a mark, in Redis keys with a prefix and a time to live, else a file or
folder beside the one that was named, which no one else knows of. Frameworks need not know: nothing
of theirs is imported here.
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
from stateward.audit.targets.target import FileStorage
from stateward.errors import InvalidInput

POSTGRES, SQLITE, REDIS, FOLDER = "postgresql", "sqlite", "redis", "file"
SERVERS = (POSTGRES, REDIS)
EXAMPLES = {
    POSTGRES: "postgresql://127.0.0.1/agents",
    SQLITE: "sqlite:///agents.db",
    REDIS: "redis://127.0.0.1:6379",
    FOLDER: "file:///var/lib/sessions",
}
POOL = 4  # connections a replica may open: as many as a store of Stateward's does
MARK = "made by stateward audit for a framework"
SECONDS = 3600  # after which a Redis server forgets what no one removed
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "max_connections")
TIDY = 30_000  # milliseconds that removing a schema may wait for someone's transaction


def kind_of(url: str) -> str:
    """Return the kind of database or folder that a URL names."""
    scheme = url.partition("://")[0]
    return {"postgres": POSTGRES, "rediss": REDIS}.get(scheme, scheme)


def path_of(url: str) -> str:
    """The file or folder that a URL names."""
    return os.path.abspath(unquote(urlsplit(url).path.removeprefix("/")))


def sandbox(url: str, namespace: str) -> Sandbox:
    """Return the storage that a URL and a namespace name; it need not exist."""
    return KINDS.get(kind_of(url), FolderSandbox)(url, namespace)


class Sandbox:
    """State of a framework at one URL, under one name."""

    files: FileStorage | None = None

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace

    async def prepare(self) -> None:
        """Make it; raises, and has made nothing, if someone's data is there."""
        raise NotImplementedError

    async def clear(self) -> None:
        """Remove it and all that is in it. Only one that `prepare` has made."""
        raise NotImplementedError

    async def clear_all(self) -> list[str]:
        """Remove what killed audits have left in this server; their names."""
        raise InvalidInput(
            "clean takes --url postgresql://… or redis://…; files are removed with rm"
        )

    async def describe(self) -> dict[str, Any]:
        """Describe the storage: its size, and what it reports about itself."""
        raise NotImplementedError

    def sqlalchemy(self) -> tuple[str, dict[str, Any]]:
        """URL and options of SQLAlchemy's engine, with the drivers that the frameworks name."""
        raise NotImplementedError


class SchemaSandbox(Sandbox):
    """A schema of PostgreSQL."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__(url, namespace)
        self.schema = re.sub(r"[^a-z0-9_]", "_", namespace.lower())

    def within(self) -> str:
        """Return the URL of the same database with this schema as the default."""
        parts = urlsplit(self.url)
        options = dict(parse_qsl(parts.query))
        asked = f'{options.get("options", "")} -c search_path="{self.schema}"'.strip()
        query = urlencode(options | {"options": asked}, quote_via=quote)
        return urlunsplit(parts._replace(scheme="postgresql", query=query))

    def sqlalchemy(self) -> tuple[str, dict[str, Any]]:
        return f"postgresql+asyncpg://{self.url.partition('://')[2]}", {
            "pool_size": POOL,
            "max_overflow": 0,
            "pool_pre_ping": True,
            "connect_args": {"server_settings": {"search_path": f'"{self.schema}"'}},
        }

    async def prepare(self) -> None:
        import psycopg

        async with self._connected() as connection:
            try:
                async with connection.transaction():
                    await connection.execute(f'CREATE SCHEMA "{self.schema}"')
                    await connection.execute(f"COMMENT ON SCHEMA \"{self.schema}\" IS '{MARK}'")
            except psycopg.errors.DuplicateSchema as error:
                raise InvalidInput(
                    f"the schema {self.schema!r} already exists: an audit works in a "
                    "separate schema; leave --namespace out"
                ) from error
            except psycopg.errors.InsufficientPrivilege as error:
                raise InvalidInput(
                    "an audit works in a separate schema, and this role may not create one: "
                    "GRANT CREATE ON DATABASE … TO …, or audit another database"
                ) from error

    async def clear(self) -> None:
        await self._drop([self.schema])

    async def clear_all(self) -> list[str]:
        query = (
            "SELECT nspname FROM pg_namespace "
            "WHERE obj_description(oid, 'pg_namespace') = %s ORDER BY nspname"
        )
        async with self._connected() as connection:
            rows = await (await connection.execute(query, [MARK])).fetchall()
        left = [row[0] for row in rows]
        await self._drop(left)
        return left

    async def _drop(self, schemas: list[str]) -> None:
        async with self._connected() as connection:
            await connection.execute(f"SET lock_timeout = {TIDY}")
            for schema in schemas:
                await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    async def describe(self) -> dict[str, Any]:
        size = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
        )
        async with self._connected() as connection:
            (taken,) = await (await connection.execute(size, [self.schema])).fetchone()
            named = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
            rows = await (await connection.execute(named, [list(SETTINGS)])).fetchall()
            version = connection.info.server_version
        return {
            "engine": "postgresql",
            "version": f"{version // 10_000}.{version % 10_000}",
            "bytes": taken,
            "settings": dict(rows),
        }

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        from psycopg import AsyncConnection, OperationalError

        try:
            connection = await AsyncConnection.connect(
                self.url, autocommit=True, connect_timeout=10
            )
        except OperationalError as error:
            raise InvalidInput(f"the database cannot be reached: {error}") from error
        async with connection:
            yield connection


class KeysSandbox(Sandbox):
    """Keys of Redis that begin with the namespace."""

    async def prepare(self) -> None:
        async for key in self._keys(f"{self.namespace}:"):
            raise InvalidInput(
                f"the namespace {self.namespace!r} holds data ({key!r}): leave --namespace out"
            )

    async def clear(self) -> None:
        await self._drop(f"{self.namespace}:")

    async def clear_all(self) -> list[str]:
        names = {key.partition(":")[0] async for key in self._keys(PREFIX)}
        await self._drop(PREFIX)
        return sorted(names)

    async def _keys(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys with this prefix in small steps, so that a busy server is not held up."""
        literal = re.sub(r"([\\*?\[\]^-])", r"\\\1", prefix)
        async with self._connected() as client:
            async for key in client.scan_iter(match=f"{literal}*", count=1000):
                yield key.decode()

    async def _drop(self, prefix: str) -> None:
        # In a namespace that a user named there may be others; the audit's own ids are in its keys.
        keys = [key async for key in self._keys(prefix) if PREFIX in key]
        async with self._connected() as client:
            for first in range(0, len(keys), 100):
                await client.unlink(*keys[first : first + 100])

    async def describe(self) -> dict[str, Any]:
        from redis.exceptions import ResponseError

        async with self._connected() as client:
            taken = 0
            async for key in self._keys(f"{self.namespace}:"):
                taken += await client.memory_usage(key) or 0
            info = await client.info()
            try:
                config = await client.config_get("append*")
            except ResponseError:
                config = {}  # managed servers tell nothing, and the report says so
        most = int(info.get("maxmemory", 0))
        synced = config.get("appendfsync", config.get(b"appendfsync"))
        synced = synced.decode() if isinstance(synced, bytes) else synced
        return {
            "engine": "redis",
            "version": str(info.get("valkey_version") or info.get("redis_version")),
            "bytes": taken,
            "capacity": most or None,
            "settings": {
                "appendonly": "yes" if int(info.get("aof_enabled", 0)) else "no",
                "appendfsync": synced or "unknown",
                "maxmemory": most,
                "maxmemory_policy": info.get("maxmemory_policy", "unknown"),
                "used_memory": int(info.get("used_memory", 0)),
            },
        }

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        from redis.asyncio import Redis
        from redis.exceptions import RedisError

        client = Redis.from_url(self.url)
        try:
            yield client
        except RedisError as error:
            raise InvalidInput(f"the server cannot be asked: {error}") from error
        finally:
            await client.aclose()


class FileSandbox(Sandbox):
    """A file of SQLite's."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__(url, namespace)
        self._named = path_of(url)
        self.path = f"{self._named}.{quote(namespace, safe='')}"
        self.files = FileStorage(self.path)

    def sqlalchemy(self) -> tuple[str, dict[str, Any]]:
        return f"sqlite+aiosqlite:///{self.path}", {}

    async def prepare(self) -> None:
        self._refuse_existing()

    async def clear(self) -> None:
        self._remove()

    async def describe(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._describe)

    def _refuse_existing(self) -> None:
        for path in (self._named, self.path):
            if os.path.isfile(path) or (os.path.isdir(path) and os.listdir(path)):
                raise InvalidInput(
                    f"{path} already exists: an audit works in a separate place; name one "
                    "that does not exist yet, or leave --url out"
                )

    def _remove(self) -> None:
        if os.path.isdir(self.path):
            shutil.rmtree(self.path)
        remove_file(self.path)

    def _describe(self) -> dict[str, Any]:
        path = self.path
        # No framework here sets `synchronous`: what a new connection says is what theirs have.
        with closing(sqlite3.connect(path)) as connection:
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        ends = [end for end in ("", "-wal") if os.path.exists(path + end)]
        taken = sum(os.path.getsize(path + end) for end in ends)
        return {
            "engine": "sqlite",
            "version": sqlite3.sqlite_version,
            "bytes": taken,
            "capacity": taken + shutil.disk_usage(os.path.dirname(path)).free,
            "settings": {"journal_mode": journal, "synchronous": str(synchronous)},
        }


class FolderSandbox(FileSandbox):
    """A folder of small files."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__(url, namespace)
        self.files = FileStorage(small=True)

    def _describe(self) -> dict[str, Any]:
        path = Path(self.path)
        path.mkdir(parents=True, exist_ok=True)
        taken = sum(file.stat().st_size for file in path.rglob("*.json"))
        return {
            "engine": "files",
            "version": "",
            "bytes": taken,
            "capacity": taken + shutil.disk_usage(path).free,
            "settings": {},
        }


KINDS: dict[str, type[Sandbox]] = {
    POSTGRES: SchemaSandbox,
    SQLITE: FileSandbox,
    REDIS: KeysSandbox,
    FOLDER: FolderSandbox,
}
