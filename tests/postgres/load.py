"""Conversations that go on whatever happens to the server, and what must be true afterwards."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import stateward
from stateward.errors import StoreUnavailable
from stateward.layers.policy import Policy

CONVERSATIONS = 12
SLACK = 10.0  # seconds that a busy machine may add to a deadline: what hangs takes longer
# Short deadlines: many calls see the fault instead of waiting it out.
POLICY = Policy(read_timeout=5.0, write_timeout=0.15, threads="raise")


class Load:
    """Appends, each with a number of its own."""

    def __init__(self, store: stateward.Store) -> None:
        self._store = store
        self.stored: dict[str, list[int]] = {f"t{n}": [] for n in range(CONVERSATIONS)}
        self.unknown: set[int] = set()
        self.refused = 0
        self.longest = 0.0  # seconds
        self._going = True
        self._next = 0

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.stored.values()))

    async def _converse(self, id: str) -> None:
        thread = self._store.thread(id)
        while self._going:
            self._next += 1
            number = self._next
            start = time.monotonic()
            try:
                appended = await thread.append({"n": number}, {"answer": number})
            except StoreUnavailable as error:
                self.refused += 1
                if error.applied == "unknown":
                    self.unknown.add(number)
                continue
            finally:
                self.longest = max(self.longest, time.monotonic() - start)
            assert appended.status in ("stored", "duplicate")
            self.stored[id].append(number)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """All conversations, during the block."""
        async with asyncio.TaskGroup() as talking:
            for id in self.stored:
                talking.create_task(self._converse(id))
            try:
                yield
            finally:
                self._going = False

    async def traffic(self, more: int) -> None:
        """Wait until so many more were acknowledged: a fault without traffic proves nothing."""
        wanted = self.acknowledged + more
        async with asyncio.timeout(60):
            while self.acknowledged < wanted:  # noqa: ASYNC110 (a plain counter)
                await asyncio.sleep(0.005)

    async def trouble(self, more: int) -> None:
        """Wait until so many more were refused."""
        wanted = self.refused + more
        async with asyncio.timeout(60):
            while self.refused < wanted:  # noqa: ASYNC110 (a plain counter)
                await asyncio.sleep(0.005)

    async def check(self) -> None:
        """What was acknowledged is there, once, whole and in order; no call outlived its time."""
        for id, numbers in self.stored.items():
            questions = await self.questions(id)
            assert max(Counter(questions).values()) == 1, "a turn was stored twice"
            assert [n for n in questions if n in set(numbers)] == numbers, "lost or out of order"
            assert set(questions) - set(numbers) <= self.unknown, "refused, but stored"
        assert self.longest < POLICY.write_timeout + SLACK, "a call outlived its deadline"

    async def questions(self, id: str) -> list[int]:
        """The numbers that a conversation holds."""
        window = await self._store.thread(id).load()
        questions = [message["n"] for message in window.messages[::2]]
        answers = [message["answer"] for message in window.messages[1::2]]
        assert questions == answers, "a turn was split"
        return questions
