"""Sessions of the OpenAI Agents SDK on PostgreSQL."""

from __future__ import annotations

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from bench.peers.contestants.openai_agents import Sessions


class SQLAlchemySessions(Sessions):
    """One engine for all, as an application has it. The first session creates the tables."""

    name = "OpenAI Agents SQLAlchemySession"

    async def open(self) -> None:
        url = self.place.replace("postgresql://", "postgresql+asyncpg://")
        self._engine = create_async_engine(url)

    def _open(self, thread: str) -> SQLAlchemySession:
        first = not self._sessions
        return SQLAlchemySession(thread, engine=self._engine, create_tables=first)

    async def close(self) -> None:
        await self._engine.dispose()
