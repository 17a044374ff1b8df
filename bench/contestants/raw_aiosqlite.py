"""The standard driver behind an event loop, as aiosqlite does it: a thread a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import aiosqlite

from bench.contestants.raw import BUSY_SECONDS, GET, INSERT_NEXT, LAST, SWAP, decode, encode
from bench.contestants.shape import Awaited
from bench.conversations import Change, Message, Turn

READERS = 4  # connections for reads: more did not help on 2 cores


class RawAiosqlite(Awaited):
    """One connection writes, behind a lock that keeps transactions apart; a few read."""

    name = "aiosqlite"
    layout = "raw"
    colour = "async"

    def __init__(self, path: str) -> None:
        self._path = path

    async def open(self) -> None:
        self._writer = await self._connect()
        self._writing = asyncio.Lock()
        self._readers = [await self._connect() for _ in range(READERS)]
        self._idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for reader in self._readers:
            self._idle.put_nowait(reader)

    async def close(self) -> None:
        for connection in (self._writer, *self._readers):
            await connection.close()

    async def _connect(self) -> aiosqlite.Connection:
        connection = await aiosqlite.connect(self._path, timeout=BUSY_SECONDS)
        await connection.execute("PRAGMA synchronous = FULL")
        return connection

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        rows = [(thread, encode(message)) for message in turn]
        async with self._writing:
            try:
                await self._writer.executemany(INSERT_NEXT, rows)
                await self._writer.commit()
            except BaseException:
                await self._writer.rollback()
                raise

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        rows = await self._read(LAST, (thread, count))
        return [decode(body) for (body,) in reversed(rows)]

    async def get(self, user: str) -> dict[str, Any]:
        ((_version, value),) = await self._read(GET, (user,))
        return decode(value)  # type: ignore[no-any-return]

    async def _read(self, query: str, args: tuple[Any, ...]) -> list[Any]:
        reader = await self._idle.get()
        try:
            return list(await reader.execute_fetchall(query, args))
        finally:
            self._idle.put_nowait(reader)

    async def update(self, user: str, change: Change) -> None:
        while True:
            ((version, text),) = await self._read(GET, (user,))
            value = decode(text)
            change(value)
            async with self._writing:
                cursor = await self._writer.execute(SWAP, (encode(value), user, version))
                await self._writer.commit()
            if cursor.rowcount:
                return
