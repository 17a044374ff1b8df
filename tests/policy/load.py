"""Conversations that go on whatever happens, and what they saw."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from stateward import StoreUnavailable

PACE = 0.02  # seconds between two turns of one conversation


class Lag:
    """How much later than asked for a coroutine of this loop runs: nobody's fault but ours.

    With `threads`, a thread of this process too.
    """

    def __init__(self, threads: bool = False) -> None:
        self.most = 0.0
        self._over = threading.Event()
        self._task = asyncio.create_task(self._measure())
        if threads:
            threading.Thread(target=self._measure_thread, daemon=True).start()

    async def _measure(self) -> None:
        while True:
            asked = time.monotonic() + 0.005
            await asyncio.sleep(0.005)
            self._note(asked)

    def _measure_thread(self) -> None:
        while True:
            asked = time.monotonic() + 0.005
            if self._over.wait(0.005):
                return
            self._note(asked)

    def _note(self, asked: float) -> None:
        self.most = max(self.most, time.monotonic() - asked)

    def stop(self) -> None:
        self._task.cancel()
        self._over.set()


class Seen:
    """What the callers of one run were told."""

    def __init__(self, conversations: int) -> None:
        self.turns = {f"s-{n}": 0 for n in range(conversations)}  # answered to the user
        self.statuses: list[str] = []
        self.failed_reads = 0
        self.longest_read = self.longest_append = 0.0
        self.going = True

    def read(self, began: float, failed: bool) -> None:
        self.longest_read = max(self.longest_read, time.monotonic() - began)
        self.failed_reads += failed

    def appended(self, id: str, began: float, status: str) -> None:
        self.longest_append = max(self.longest_append, time.monotonic() - began)
        self.statuses.append(status)
        self.turns[id] += 1

    def turn(self, id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        n = self.turns[id]
        return {"role": "user", "n": n}, {"role": "assistant", "n": n}


async def converse(store: Any, id: str, seen: Seen) -> None:
    """A handler that answers without its history if it must."""
    thread = store.thread(id, user=f"u-{id}")
    while seen.going:
        began = time.monotonic()
        try:
            await thread.load(last=4)
            seen.read(began, False)
        except StoreUnavailable:
            seen.read(began, True)
        began = time.monotonic()
        appended = await thread.append(*seen.turn(id))
        seen.appended(id, began, appended.status)
        await asyncio.sleep(PACE)


def converse_blocking(store: Any, id: str, seen: Seen) -> None:
    """The same for a thread."""
    thread = store.thread(id, user=f"u-{id}")
    while seen.going:
        began = time.monotonic()
        try:
            thread.load(last=4)
            seen.read(began, False)
        except StoreUnavailable:
            seen.read(began, True)
        began = time.monotonic()
        appended = thread.append(*seen.turn(id))
        seen.appended(id, began, appended.status)
        time.sleep(PACE)


class Crowd:
    """All conversations of a run, as tasks or as threads."""

    def __init__(self, store: Any, conversations: int, blocking: bool) -> None:
        self.seen = Seen(conversations)
        self._tasks: list[asyncio.Task[None]] = []
        self._threads: list[threading.Thread] = []
        for id in self.seen.turns:
            if blocking:
                arguments = (store, id, self.seen)
                self._threads.append(
                    threading.Thread(target=converse_blocking, args=arguments, daemon=True)
                )
            else:
                self._tasks.append(asyncio.create_task(converse(store, id, self.seen)))
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        """Everybody finishes the turn that is under way; a failure of theirs is raised here."""
        self.seen.going = False
        await asyncio.gather(*self._tasks)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
