"""Large messages that come at the same moment do not make one batch that is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from postgres.conftest import make_engine
from stateward import Policy, Store
from stateward.engines.passthrough import Passthrough
from stateward.layers.queue import MOST_CHARACTERS, characters_of
from stateward.ops import Op, Outcome

TOGETHER = 100
TEXT = "x" * 1_000_000
PATIENT = Policy(read_timeout=100.0, write_timeout=100.0, threads="raise", breaker_failures=1)


class Weighed(Passthrough):
    """An engine that notes what it was asked for in one call."""

    most, heaviest = 0, 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.most = max(self.most, len(ops))
        self.heaviest = max(self.heaviest, sum(map(characters_of, ops)))
        return await super().execute(ops, deadline=deadline)


async def test_a_hundred_large_appends_at_the_same_moment_are_all_stored(url: str) -> None:
    engine = Weighed(make_engine(url))
    async with Store(engine, policy=PATIENT, heartbeat=None, spill=False) as store:
        threads = [store.thread(f"t{n}") for n in range(TOGETHER)]
        message = {"role": "user", "content": TEXT}
        appended = await asyncio.gather(*(thread.append(message) for thread in threads))
        assert {answer.status for answer in appended} == {"stored"}
        assert store.breaker == "closed"
        assert engine.most > 1, "each went alone, which proves nothing"
        assert len(TEXT) < engine.heaviest <= MOST_CHARACTERS
        for thread in threads:
            assert [len(m["content"]) for m in (await thread.load()).messages] == [len(TEXT)]
