"""Lookups of a conversation that grows longer and longer."""

from __future__ import annotations

from typing import Any

from stateward.audit.histogram import LogHistogram
from stateward.audit.record import Length
from stateward.audit.targets.memory import Memory, Stopwatch
from stateward.audit.workloads.load import LAST
from stateward.audit.workloads.samples import turn
from stateward.audit.workloads.workload import Stage, Workload

LOOKS = 60  # at each length of history
AT_ONCE = 100  # messages a call, when a history is made


async def conduct(stage: Stage) -> None:
    (replica,) = await stage.fleet.start()
    (thread,) = stage.names("long", 1)
    lengths, stored = [], 0
    for length in stage.sizes.history:
        stage.say(f"a history of {length:,} messages")
        counts = await replica.ask(
            "history:lengthen", thread=thread, there=stored, length=length, patience=600.0
        )
        stored = length
        took = LogHistogram(counts)
        lengths.append(Length(length, took.ms(0.5), took.ms(0.95), took.ms(0.99)))
    await stage.fleet.end(replica)
    stage.record.lengths = lengths


WORKLOAD = Workload("history", "threads", "lengthening a conversation", conduct)


# --- in a replica -----------------------------------------------------------------------


async def lengthen(
    memory: Memory, tell: Any, thread: str, there: int, length: int
) -> dict[str, int]:
    for first in range(there, length, AT_ONCE):
        messages = [m for n in range(first, min(first + AT_ONCE, length), 2) for m in turn(f"{n}")]
        await memory.append(thread, messages, f"long/{first}")
    await memory.load(thread, LAST)
    took = LogHistogram()
    for _ in range(LOOKS):
        with Stopwatch() as watch:
            await memory.load(thread, LAST)
        took.add(watch.seconds)
    return took.plain()
