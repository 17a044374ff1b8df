"""Hearing of changes: LISTEN on a connection of its own, while anybody waits.

A notification is a hint. Whoever waits looks again from time to time all the same, so a lost
connection, or a commit that did not know yet that somebody listens, costs a moment at most.
`notify_sync.py` is the blocking twin.
"""

from __future__ import annotations

import asyncio
import logging

import psycopg

from stateward.engines.postgres.connection import Link, connect
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.settings import Settings

REFRESH = 10.0  # seconds between two notes that somebody still listens here
LISTENING = 30.0  # seconds such a note is good for

logger = logging.getLogger("stateward.postgres")


class Waiter:
    """One caller that waits for some entities; None: for whatever changes."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.ids: frozenset[int] | None = None

    def hear(self, ids: frozenset[int] | None) -> None:
        """Some entities changed; None: it is not known which."""
        if ids is None or self.ids is None or not ids.isdisjoint(self.ids):
            self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Whether something was heard by then, or since the last time."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class Listener:
    """All the waiters of one engine, and the task that hears for them."""

    def __init__(self, settings: Settings, queries: Queries) -> None:
        self._settings = settings
        self._queries = queries
        self._id = settings.world.new_id()
        self._waiters: set[Waiter] = set()
        self._task: asyncio.Task[None] | None = None
        self.ready = False  # what is committed from now on will be heard

    def join(self) -> Waiter:
        """Begin to listen for one more."""
        waiter = Waiter()
        self._waiters.add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen())
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """The connection stays for a while: whoever follows a log comes back at once."""
        self._waiters.discard(waiter)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        link = None
        try:
            link = await connect(self._settings)
            await link.execute(f'LISTEN "{self._queries.channel}"')
            while self._waiters:
                await link.execute(self._queries.listen, (self._id, LISTENING))
                self.ready = True
                async for notify in link.notifies(timeout=REFRESH):
                    self._hear(notify.payload)
            await link.execute(self._queries.unlisten, (self._id,))
        except psycopg.Error as error:
            logger.info("listening_failed", extra={"error": str(error).strip()})
        finally:
            self.ready = False
            if link is not None:
                await _let_go(link)
            self._hear("")

    def _hear(self, payload: str) -> None:
        ids = frozenset(map(int, payload.split(","))) if payload else None
        for waiter in self._waiters:
            waiter.hear(ids)


async def _let_go(link: Link) -> None:
    link.pgconn.finish()  # also between a request and its reply: nobody uses it again
    await link.close()
