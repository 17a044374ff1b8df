"""A workflow of many model calls: what it stores, and how long its last resume takes.

The conversation is in the workflow: each call is given all of it, and adds one message. A resume
is what the next driver does, in a store that it has just opened, until its code has come to where
the last one stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Any

import stateward
from bench.scale.places import Place
from bench.scale.turns import PATIENT
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, parse
from stateward.ops import Acquire, Commit, Op, Outcome, Release
from stateward.world import World

RESUMES = 9
WORDS = "some twenty tokens are what a short answer of a model takes, so that many are a long talk "

Message = dict[str, Any]


@dataclass(frozen=True)
class LongWork:
    """One workflow of so many calls."""

    calls: int
    form: str  # what the code does
    bytes: dict[str, int]
    call_ms: float  # a mean: the call takes no time, recording it does
    resume_ms: float
    resume_cpu_ms: float  # of the client; on SQLite that is all of it
    round_trips: int


def answer(messages: list[Message]) -> Message:
    return {"role": "assistant", "content": f"{len(messages)} {WORDS}"}


async def replayed(run: Any, calls: int) -> None:
    """What most people write: on the way back through the code, every step is asked for again."""
    messages: list[Message] = []
    for _ in range(calls):
        messages.append(await run.step("model", answer, messages))


async def checkpointed(run: Any, calls: int) -> None:
    messages: list[Message] = run.checkpointed or []
    while len(messages) < calls:
        messages.append(await run.step("model", answer, messages))
        await run.checkpoint(messages)


async def whole(run: Any, calls: int) -> None:
    """The state goes into each step and comes out of it, as in a graph."""
    messages: list[Message] = run.checkpointed or []
    while len(messages) < calls:
        messages = await run.step("model", lambda said: [*said, answer(said)], messages)
        await run.checkpoint(messages)


FORMS: dict[str, Callable[[Any, int], Awaitable[None]]] = {
    "an answer": replayed,
    "an answer; a checkpoint each time": checkpointed,
    "the whole conversation; a checkpoint each time": whole,
}


def measure(place: Place, calls: int) -> list[LongWork]:
    return [asyncio.run(_measure(place, calls, form)) for form in FORMS]


async def _measure(place: Place, calls: int, form: str) -> LongWork:
    name = f"workflow{list(FORMS).index(form)}x{calls}"
    url = place.url(name)
    begun = perf_counter()
    store = stateward.open(url, policy=PATIENT, spill=False)
    async with store, store.workflow("w", kind="agent") as run:
        await FORMS[form](run, calls)
        await run.wait("more")
    filled = perf_counter() - begun
    place.settle(name)
    size = place.size(name)
    resumes = [
        await _resume(stateward.open(url, policy=PATIENT, spill=False), form, calls)
        for _ in range(RESUMES)
    ]
    took, busy = (median(times) * 1e3 for times in zip(*resumes, strict=True))
    engine = Counted(create_engine(parse(url), World()))
    await _resume(stateward.Store(engine, policy=PATIENT), form, calls)
    return LongWork(calls, form, size, filled / calls * 1e3, took, busy, engine.resumed)


class Counted(Passthrough):
    """An engine that counts round trips, from taking the workflow until parking it."""

    asked = resumed = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        writes = [type(write) for op in ops if isinstance(op, Commit) for write in op.writes]
        if Acquire in writes:
            self.asked = 0
        elif Release in writes:
            self.resumed = self.asked
        self.asked += 1
        return await super().execute(ops, deadline=deadline)


async def _resume(store: stateward.Store, form: str, calls: int) -> tuple[float, float]:
    """Seconds until the code is where it was: those that passed, and those of the processor."""
    async with store:
        await store.workflow("w").info()
        begun = perf_counter(), process_time()
        async with store.workflow("w") as run:
            await FORMS[form](run, calls)
            took = perf_counter() - begun[0], process_time() - begun[1]
            await run.wait("more")
    return took
