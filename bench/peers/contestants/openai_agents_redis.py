"""Sessions of the OpenAI Agents SDK on Redis or Valkey."""

from __future__ import annotations

from agents.extensions.memory import RedisSession
from redis.asyncio import Redis

from bench.peers.contestants.openai_agents import Sessions


class RedisSessions(Sessions):
    """One client for all, with redis-py's own pool."""

    name = "OpenAI Agents RedisSession"

    async def open(self) -> None:
        self._client = Redis.from_url(self.place)

    def _open(self, thread: str) -> RedisSession:
        return RedisSession(thread, redis_client=self._client)

    async def close(self) -> None:
        await self._client.aclose()
