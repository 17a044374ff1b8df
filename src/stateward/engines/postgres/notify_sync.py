"""The blocking twin of `notify.py`: a thread hears for all threads that wait."""

from __future__ import annotations

import logging
import threading

import psycopg

from stateward.engines.postgres.notify import LISTENING, REFRESH
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.settings import Settings

SLICE = 0.1  # seconds after which the thread looks whether it should end

logger = logging.getLogger("stateward.postgres")


class Waiter:
    """One thread that waits for some entities; None: for whatever changes."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self.ids: frozenset[int] | None = None

    def hear(self, ids: frozenset[int] | None) -> None:
        """Some entities changed; None: it is not known which."""
        if ids is None or self.ids is None or not ids.isdisjoint(self.ids):
            self._woken.set()

    def wait(self, seconds: float) -> bool:
        """Whether something was heard by then, or since the last time."""
        if not self._woken.wait(seconds):
            return False
        self._woken.clear()
        return True


class Listener:
    """All the waiters of one engine, and the thread that hears for them."""

    def __init__(self, settings: Settings, queries: Queries) -> None:
        self._settings = settings
        self._queries = queries
        self._id = settings.world.new_id()
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.ready = False  # what is committed from now on will be heard

    def join(self) -> Waiter:
        """Begin to listen for one more."""
        waiter = Waiter()
        with self._lock:
            self._waiters.add(waiter)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._listen, name="stateward-postgres-listener", daemon=True
                )
                self._thread.start()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """The connection stays for a while: whoever follows a log comes back at once."""
        with self._lock:
            self._waiters.discard(waiter)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _listen(self) -> None:
        from stateward.sync.engines.postgres.connection import connect

        link = None
        try:
            link = connect(self._settings)
            link.execute(f'LISTEN "{self._queries.channel}"')
            while self._is_wanted():
                link.execute(self._queries.listen, (self._id, LISTENING))
                self.ready = True
                self._hear_until(link, self._settings.world.monotonic() + REFRESH)
            link.execute(self._queries.unlisten, (self._id,))
        except psycopg.Error as error:
            logger.info("listening_failed", extra={"error": str(error).strip()})
        finally:
            self.ready = False
            if link is not None:
                link.close()
            with self._lock:
                self._thread = None
            self._hear("")

    def _hear_until(self, link: psycopg.Connection[tuple[object, ...]], end: float) -> None:
        while not self._closed and self._settings.world.monotonic() < end:
            for notify in link.notifies(timeout=SLICE):
                self._hear(notify.payload)

    def _is_wanted(self) -> bool:
        with self._lock:
            return bool(self._waiters) and not self._closed

    def _hear(self, payload: str) -> None:
        ids = frozenset(map(int, payload.split(","))) if payload else None
        with self._lock:
            for waiter in self._waiters:
                waiter.hear(ids)
