"""Notifications of changes: LISTEN on a connection of its own, while any caller waits.

A notification is a hint. Waiting callers also look again from time to time, so a lost connection,
or a commit that did not know of a listener yet, costs a moment at most.
"""

from __future__ import annotations

import asyncio
import logging
import threading

# sync only: from contextlib import suppress
import psycopg

from stateward.engines.postgres.connection import Link, connect
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.settings import Settings

# sync only: from stateward.world import start_in_time

REFRESH = 10.0  # seconds between two notes that somebody still listens here
LISTENING = 30.0  # seconds such a note is good for
SLICE = REFRESH  # async only
# sync only: SLICE = 0.1  # seconds after which the thread looks whether it should end

logger = logging.getLogger("stateward.postgres")


class Waiter:
    """One caller that waits for some entities; None: for any change."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.ids: frozenset[int] | None = None

    def hear(self, ids: frozenset[int] | None) -> None:
        """Note that some entities changed; None: it is not known which."""
        if ids is None or self.ids is None or not ids.isdisjoint(self.ids):
            self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Return whether something was heard by then, or since the last time."""
        # async only: begin
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        # async only: end
        # sync only: if not self._woken.wait(seconds):
        # sync only:     return False
        self._woken.clear()
        return True


class Listener:
    """Waiters of one engine, and the task or thread that receives their notifications."""

    def __init__(self, settings: Settings, queries: Queries) -> None:
        self._settings = settings
        self._queries = queries
        self._id = settings.world.new_id()
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._task: asyncio.Task[None] | None = None  # async only
        # sync only: self._thread: threading.Thread | None = None
        self._closed = False
        self.ready = False  # notifications of later commits will arrive

    def join(self) -> Waiter:
        """Begin to listen for one more."""
        waiter = Waiter()
        with self._lock:
            self._waiters.add(waiter)
            # sync only: if self._thread is None and not self._closed:
            # sync only:     name = "stateward-postgres-listener"
            # sync only:     thread = threading.Thread(target=self._listen, name=name, daemon=True)
            # sync only:     with suppress(RuntimeError, MemoryError):  # then waiters poll
            # sync only:         start_in_time(thread)
            # sync only:         self._thread = thread
        # async only: begin
        if self._task is None or self._task.done():  # not under the lock: a task may begin at once
            self._task = asyncio.get_running_loop().create_task(self._listen())
        # async only: end
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Forget a waiter; the connection stays for a while: followers of a log come back soon."""
        with self._lock:
            self._waiters.discard(waiter)

    async def close(self) -> None:
        # async only: begin
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])
        # async only: end
        # sync only: with self._lock:
        # sync only:     self._closed = True
        # sync only:     thread = self._thread
        # sync only: if thread is not None:
        # sync only:     thread.join()

    async def _listen(self) -> None:
        link = None
        try:
            link = await connect(self._settings)
            await link.execute(f'LISTEN "{self._queries.channel}"')
            while self._is_wanted():
                await link.execute(self._queries.listen, (self._id, LISTENING))
                self.ready = True
                await self._hear_until(link, self._settings.world.monotonic() + REFRESH)
            await link.execute(self._queries.unlisten, (self._id,))
        except psycopg.Error as error:
            logger.info("listening_failed", extra={"error": str(error).strip()})
        finally:
            self.ready = False
            if link is not None:
                link.pgconn.finish()  # also within a request: the link is not used again
                await link.close()
            # sync only: with self._lock:
            # sync only:     self._thread = None
            self._hear("")

    async def _hear_until(self, link: Link, end: float) -> None:
        while not self._closed and self._settings.world.monotonic() < end:
            async for notify in link.notifies(timeout=SLICE):
                self._hear(notify.payload)

    def _is_wanted(self) -> bool:
        with self._lock:
            return bool(self._waiters) and not self._closed and self._settings.listens

    def _hear(self, payload: str) -> None:
        ids = frozenset(map(int, payload.split(","))) if payload else None
        with self._lock:
            for waiter in self._waiters:
                waiter.hear(ids)
