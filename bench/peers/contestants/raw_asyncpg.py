"""asyncpg by hand: the same tables and statements as psycopg has, in a pool."""

from __future__ import annotations

from typing import Any

import asyncpg

from bench.contestants import raw_psycopg
from bench.contestants.raw import decode, encode
from bench.conversations import Change, Message, Population, Turn
from bench.peers.shape import Peer

APPEND = """INSERT INTO messages (thread, seq, body)
    SELECT $1, newest.seq + told.place, told.body
    FROM (SELECT coalesce(max(seq), 0) AS seq FROM messages WHERE thread = $1) AS newest,
         (VALUES (1, $2), (2, $3)) AS told (place, body)"""
LAST = "SELECT body FROM messages WHERE thread = $1 ORDER BY seq DESC LIMIT $2"
GET = "SELECT version, value FROM documents WHERE id = $1"
SWAP = "UPDATE documents SET version = version + 1, value = $1 WHERE id = $2 AND version = $3"


class RawAsyncpg(Peer):
    name = "asyncpg"
    colour = "async"

    async def open(self) -> None:
        size = raw_psycopg.CONNECTIONS
        self._pool = await asyncpg.create_pool(self.place, min_size=size, max_size=size)

    async def close(self) -> None:
        await self._pool.close()

    async def fill(self, population: Population) -> None:
        raw_psycopg.fill(self.place, population)

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._pool.execute(APPEND, thread, *map(encode, turn))

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        rows = await self._pool.fetch(LAST, thread, count)
        return [decode(row[0]) for row in reversed(rows)]

    async def get(self, user: str) -> dict[str, Any]:
        return decode((await self._pool.fetchrow(GET, user))["value"])  # type: ignore[no-any-return]

    async def update(self, user: str, change: Change) -> None:
        while True:
            version, text = await self._pool.fetchrow(GET, user)
            value = decode(text)
            change(value)
            done = await self._pool.execute(SWAP, encode(value), user, version)
            if done == "UPDATE 1":
                return
