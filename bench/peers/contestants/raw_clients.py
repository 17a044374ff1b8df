"""The raw clients of `bench.contestants` that have the shape of a peer already, but for filling."""

from __future__ import annotations

from bench.contestants import raw, raw_redis
from bench.contestants.raw_aiosqlite import RawAiosqlite
from bench.contestants.raw_redis import RawRedisAsync
from bench.conversations import Population
from bench.peers.shape import Peer


class Aiosqlite(RawAiosqlite, Peer):
    name = "aiosqlite"

    def __init__(self, place: str) -> None:
        Peer.__init__(self, place)
        RawAiosqlite.__init__(self, place)

    async def open(self) -> None:
        """When the tables are there."""

    async def fill(self, population: Population) -> None:
        raw.fill(self.place, population)
        await super().open()


class RedisPy(RawRedisAsync, Peer):
    name = "redis-py"

    def __init__(self, place: str) -> None:
        Peer.__init__(self, place)
        RawRedisAsync.__init__(self, place)

    async def fill(self, population: Population) -> None:
        raw_redis.fill(self.place, population)
