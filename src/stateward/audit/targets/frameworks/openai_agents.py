"""The OpenAI Agents SDK: a session a conversation, a turn added by one `add_items`.

A session keeps items and nothing else: no users' state, tasks, workflows, locks or metrics, and no
key by which a turn that is delivered twice could be told.
"""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from typing import Any

from agents import SQLiteSession

from stateward.audit.targets.frameworks.memory import FrameworkMemory
from stateward.audit.targets.frameworks.sandbox import SECONDS
from stateward.audit.targets.memory import UNAVAILABLE, Json
from stateward.audit.targets.target import AuditTarget


class SessionsMemory(FrameworkMemory):
    provides: tuple[str, ...] = ("threads", "sizes")
    keys = False  # add_items takes none

    def session(self, thread: str) -> Any:
        """An async context manager that gives the session of a conversation."""
        raise NotImplementedError

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        async with self.session(thread) as session:
            await session.add_items(messages)

    async def load(self, thread: str, last: int | None) -> list[Json]:
        async with self.session(thread) as session:
            items: list[Json] = await session.get_items(limit=last)
        return items


class SqliteSessions(SessionsMemory):
    """SQLiteSession: one file, a connection a session."""

    unavailable = (sqlite3.OperationalError, *UNAVAILABLE)

    @asynccontextmanager
    async def session(self, thread: str) -> Any:
        session = SQLiteSession(thread, self.sandbox.path)
        try:
            yield session
        finally:
            session.close()


class SqlalchemySessions(SessionsMemory):
    """SQLAlchemySession over one engine a replica."""

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        from agents.extensions.memory import SQLAlchemySession
        from sqlalchemy.exc import DBAPIError
        from sqlalchemy.ext.asyncio import create_async_engine

        self.unavailable = (DBAPIError, *UNAVAILABLE)
        self._kind = SQLAlchemySession
        url, options = self.sandbox.sqlalchemy()
        self._engine = create_async_engine(url, **options)

    async def open(self) -> None:
        await self._kind("tables", engine=self._engine, create_tables=True).get_items(limit=1)

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def session(self, thread: str) -> Any:
        yield self._kind(thread, engine=self._engine)


class RedisSessions(SessionsMemory):
    """RedisSession over one client a replica; everything it writes expires within an hour."""

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        from agents.extensions.memory import RedisSession
        from redis.asyncio import Redis
        from redis.exceptions import ConnectionError, TimeoutError

        self.unavailable = (ConnectionError, TimeoutError, *UNAVAILABLE)
        self._kind = RedisSession
        self._client = Redis.from_url(self.target.url or "")

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def session(self, thread: str) -> Any:
        yield self._kind(
            thread, redis_client=self._client, key_prefix=self.target.namespace, ttl=SECONDS
        )
