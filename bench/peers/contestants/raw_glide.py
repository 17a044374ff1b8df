"""valkey-glide by hand: RPUSH, LRANGE and GET on one multiplexed connection."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from glide import GlideClient, GlideClientConfiguration, NodeAddress

from bench.contestants import raw_redis
from bench.contestants.raw import decode, encode
from bench.contestants.raw_redis import document, log
from bench.conversations import Message, Population, Turn
from bench.peers.shape import Peer


class RawGlide(Peer):
    """A compare-and-swap would need a connection of its own, or a script: it has no update."""

    name = "valkey-glide"
    colour = "async"

    async def open(self) -> None:
        url = urlsplit(self.place)
        node = NodeAddress(url.hostname or "127.0.0.1", url.port or 6379)
        self._client = await GlideClient.create(GlideClientConfiguration([node]))

    async def close(self) -> None:
        await self._client.close()

    async def fill(self, population: Population) -> None:
        raw_redis.fill(self.place, population)

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._client.rpush(log(thread), [encode(message) for message in turn])

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        found = await self._client.lrange(log(thread), -count, -1)
        return [decode(body) for body in found]

    async def get(self, user: str) -> dict[str, Any]:
        found: Any = await self._client.get(document(user))
        return decode(found)  # type: ignore[no-any-return]
