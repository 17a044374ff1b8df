"""A hundred callers, a thousand operations, a third of them cancelled at random moments.

Every other caller gets its own data, nothing that was accepted is missing, nothing is there
twice, and the next operation works.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

import stateward
from stateward import Store
from stateward.testing.faults import open_faulty

CALLERS, EACH = 100, 10
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_sqlite(folder: Path) -> Store:
    return stateward.open(f"sqlite:///{folder}/agents.db")


def on_memory(_folder: Path) -> Store:
    """Memory alone answers before anybody can be cancelled, so its answers take their time."""
    store = open_faulty()
    store.faults.slow(0.001)
    return store


class Crowd:
    """Callers with a thread each, one thread for all, and a count in the variables of each."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.done: Counter[str] = Counter()  # operations that were answered, by kind
        self.cancelled: Counter[str] = Counter()
        self.accepted: dict[str, set[str]] = {}  # by thread
        self.asked: dict[str, set[str]] = {}
        self.counted = Counter[int]()
        self.maybe = Counter[int]()
        self._chance = random.Random(seed)
        self.rounds = 0

    async def run(self) -> None:
        everything = [(caller, turn) for caller in range(CALLERS) for turn in range(EACH)]
        # More than a third, since some are answered before they can be cancelled.
        self._doomed = set(self._chance.sample(everything, len(everything) * 2 // 5))
        self.rounds += 1
        await asyncio.gather(*(self._call(caller) for caller in range(CALLERS)))

    async def _call(self, caller: int) -> None:
        acts = (self._append, self._append_for_all, self._count, self._load)
        for turn in range(EACH):
            doomed = (caller, turn) in self._doomed
            act = self._chance.choice(acts[:3] if doomed else acts)  # a load may be over at once
            task = asyncio.ensure_future(act(caller, turn))
            if doomed:
                delay = self._chance.choice((0.0, 0.002, 0.004)) * self._chance.random()
                asyncio.get_running_loop().call_later(delay, task.cancel)
            try:
                await task
                self.done[act.__name__] += 1
            except asyncio.CancelledError:
                self.cancelled[act.__name__] += 1

    async def _append(self, caller: int, turn: int) -> None:
        await self._append_to(f"c{caller}", f"{self.rounds}.{caller}.{turn}")

    async def _append_for_all(self, caller: int, turn: int) -> None:
        await self._append_to("all", f"{self.rounds}.{caller}.{turn}")

    async def _append_to(self, thread: str, word: str) -> None:
        self.asked.setdefault(thread, set()).add(word)
        await self.store.thread(thread).append({"word": word})
        self.accepted.setdefault(thread, set()).add(word)

    async def _load(self, caller: int, _turn: int) -> None:
        before = set(self.accepted.get(f"c{caller}", ()))
        words = await self.words(f"c{caller}")
        assert before <= set(words) <= self.asked.get(f"c{caller}", set()), "another's data"

    async def _count(self, caller: int, _turn: int) -> None:
        def add_one(value: dict[str, Any]) -> None:
            assert value.get("caller", caller) == caller, "another's data"
            value.update(caller=caller, n=value.get("n", 0) + 1)

        self.maybe[caller] += 1
        document = await self.store.thread(f"c{caller}").vars.update(add_one)
        self.counted[caller] += 1
        assert self.counted[caller] <= document.value["n"] <= self.maybe[caller]

    async def words(self, thread: str) -> list[str]:
        return [message["word"] for message in (await self.store.thread(thread).load()).messages]

    async def check(self) -> None:
        for thread, asked in self.asked.items():
            words = await self.words(thread)
            assert len(words) == len(set(words)), "stored twice"
            assert self.accepted.get(thread, set()) <= set(words) <= asked, "lost, or another's"
        for caller in range(CALLERS):
            n = (await self.store.thread(f"c{caller}").vars.get()).value.get("n", 0)
            assert self.counted[caller] <= n <= self.maybe[caller]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("open_store", [on_sqlite, on_memory])
def test_cancelled_callers_disturb_nobody(
    open_store: Callable[[Path], Store], loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            crowd = Crowd(store, seed=7)
            # On a quick machine more are answered before they can be cancelled.
            while crowd.cancelled.total() < 250 and crowd.rounds < 20:
                await crowd.run()
            assert (await store.thread("after").append({"word": "after"})).version == 1
            await crowd.check()
            done, cancelled = crowd.done.total(), crowd.cancelled.total()
            assert done + cancelled == CALLERS * EACH * crowd.rounds
            assert cancelled >= 250, f"only {cancelled} were cancelled: the test proves little"
            written = sum([len(await crowd.words(thread)) for thread in crowd.asked])
            accepted = sum(len(words) for words in crowd.accepted.values())
            asked = sum(len(words) for words in crowd.asked.values())
            # Some were cancelled too late to be stopped, and some in time.
            assert accepted < written < asked

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
