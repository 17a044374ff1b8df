"""A real store fails under load: every turn gets its answer, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
import stateward.sync
from policy.engines import ENGINES, Target
from policy.load import Crowd, Lag
from stateward import Alarm, AlarmEvent, Policy

CONVERSATIONS = 12
POLICY = Policy(read_timeout=0.5, write_timeout=0.8, breaker_seconds=0.5)
LOCAL_WRITE = 0.3  # a spilled append takes its deadline and then one write to the local disk
LAST_LOOK = 0.5  # a blocking caller looks at the clock now and then while it waits for an answer
HOPS = 5  # times that a call has to wait for this machine at most: tasks, threads, files
SUPPRESSED = 40  # so many before the fault is over: less proves nothing

ORDINARY = [(name, fault) for name, (_, faults, _) in ENGINES.items() for fault in faults]
SOAK = [(name, fault) for name, (_, _, faults) in ENGINES.items() for fault in faults]


class Opened:
    """A store of either colour, used from a test that is async."""

    def __init__(self, url: str, blocking: bool, **options: Any) -> None:
        self.blocking = blocking
        self.store: Any = (stateward.sync if blocking else stateward).open(url, **options)

    async def do(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        if self.blocking:
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)


async def survive(target: Target, fault: str, folder: Path, blocking: bool) -> None:
    heard: list[AlarmEvent] = []
    opened = Opened(
        target.url,
        blocking,
        policy=POLICY,
        alarm=Alarm(heard.append, suppressed=10, seconds=1.0, slow=60.0),
        spill=folder / "spill",
    )
    store = opened.store
    begin, end = target.faults[fault]
    lag = Lag(blocking)
    crowd = Crowd(store, CONVERSATIONS, blocking)
    seen = crowd.seen
    try:
        await until(lambda: seen.statuses.count("stored") >= 5 * CONVERSATIONS)
        await begin()
        try:
            before = dict(seen.turns)
            await until(lambda: store.counters.suppressed >= SUPPRESSED and bool(heard))
            # Whatever was under way when it began is answered while it lasts: nobody waits for
            # its end.
            await until(lambda: all(seen.turns[id] >= turns + 2 for id, turns in before.items()))
            assert store.counters.breaker_opened
        finally:
            await end()
        recovering = time.monotonic()
        stored = seen.statuses.count("stored")
        await until(lambda: seen.statuses.count("stored") >= stored + CONVERSATIONS)
        recovered = time.monotonic() - recovering
        await crowd.stop()
        await until(lambda: store.counters.replayed == store.counters.spilled)
        await until(lambda: not heard[-1].raised)
    finally:  # a thread that talked on would be in the way of every test that follows
        await crowd.stop()
        lag.stop()
        await opened.do(store.close)
    check_calls(seen, lag.most, blocking)
    assert recovered <= 15.0 + HOPS * lag.most, f"it took {recovered:.1f} s"
    # On a slow machine calls are late without a fault too, and that is told as well.
    assert {event.name for event in heard} == {"memory_write_suppressed"}
    assert [event.raised for event in heard] == [True, False] * (len(heard) // 2)
    assert store.counters.late == 0, "each conversation has one writer"
    assert store.counters.dropped == store.counters.refused == store.counters.erased == 0
    assert not list((folder / "spill").glob("*.spill"))
    async with stateward.open(target.direct, spill=False) as other:
        for id, count in seen.turns.items():
            found = [m["n"] for m in (await other.thread(id).load()).messages]
            assert found == [n for n in range(count) for _ in range(2)], id


def check_calls(seen: Any, lag: float, blocking: bool) -> None:
    """No call outlives its deadline, net of what this machine itself was late."""
    assert set(seen.statuses) <= {"stored", "spilled"}
    longest = LAST_LOOK if blocking else 0.0
    late = HOPS * lag
    assert seen.longest_read <= longest + POLICY.read_timeout + late + 0.1
    assert seen.longest_append <= longest + POLICY.write_timeout + late + LOCAL_WRITE


@pytest.mark.timing
@pytest.mark.parametrize(("engine", "fault"), ORDINARY)
async def test_every_turn_is_answered_and_stored_once(
    engine: str, fault: str, tmp_path: Path
) -> None:
    async with ENGINES[engine][0](tmp_path) as target:
        await survive(target, fault, tmp_path, blocking=False)


@pytest.mark.timing
@pytest.mark.parametrize(("engine", "fault"), [pair for pair in ORDINARY if "killed" in pair])
async def test_blocking_callers_get_the_same(engine: str, fault: str, tmp_path: Path) -> None:
    async with ENGINES[engine][0](tmp_path) as target:
        await survive(target, fault, tmp_path, blocking=True)


@pytest.mark.soak
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize(("engine", "fault"), ORDINARY + SOAK)
async def test_ten_outages_in_a_row(
    engine: str, fault: str, blocking: bool, tmp_path: Path
) -> None:
    for n in range(10):
        folder = tmp_path / str(n)
        folder.mkdir()
        async with ENGINES[engine][0](folder) as target:
            await survive(target, fault, folder, blocking)


async def test_with_the_breaker_open_a_read_does_not_touch_the_network(tmp_path: Path) -> None:
    async with ENGINES["postgres"][0](tmp_path) as target:
        policy = Policy(read_timeout=0.2, write_timeout=0.2, breaker_seconds=60.0)
        async with stateward.open(target.url, policy=policy, spill=False) as store:
            thread = store.thread("s-1")
            await thread.append({"n": 1})
            asked = 0
            send = store._layered.stacks[0].engine.execute

            async def counted(ops: Any, **hints: Any) -> Any:
                nonlocal asked
                asked += 1
                return await send(ops, **hints)

            store._layered.stacks[0].engine.execute = counted  # type: ignore[method-assign]
            begin, end = target.faults["frozen"]
            await begin()
            while not store._layered.stacks[0]._deadlines._reads.is_open:
                with pytest.raises(stateward.StoreUnavailable):
                    await thread.load()
            before, began = asked, time.monotonic()
            for _ in range(100):
                with pytest.raises(stateward.StoreUnavailable, match="the breaker is open"):
                    await thread.load()
            assert before > 0
            assert asked == before
            assert time.monotonic() - began < 100 * policy.read_timeout, "nobody waited"
            await end()
