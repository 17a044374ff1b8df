"""What processes measured over time: kept with their heartbeats, for a day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable, until
from stateward.errors import InvalidInput, StateConflictError
from stateward.kinds import HEARTBEAT, SIGNALS
from stateward.ops import Append, Applied, Entity, Put, SetHead
from stateward.records import Concern, SignalPoint
from stateward.state.replica_record import SHOWN, Beat, beating, closing
from stateward.state.signal_record import DAY, STRETCH, STRETCHES, Reading, Readings
from stateward.store import Store
from stateward.testing.conformance.harness import raises

SOON = 0.1  # seconds: the shortest there is
BEAT = Beat(host="host", pid=1, version="9", every=10.0)


async def measured(
    h: StoreHarness, store: Store, is_so: Callable[[SignalPoint], bool], **asked: Any
) -> SignalPoint:
    """Wait until all that was measured is so."""
    found: list[SignalPoint] = []

    async def is_there() -> bool:
        found[:] = [(await store.signals(**asked)).total]
        return is_so(found[0])

    await until(h, is_there)
    return found[0]


@case
async def what_all_processes_measure_is_read_as_one(h: StoreHarness) -> None:
    async with (
        h.store(heartbeat=SOON) as one,
        h.store(heartbeat=SOON) as two,
        h.store(heartbeat=None) as other,
    ):
        for store in (one, two):
            await store.thread("t").append({"n": 1})
            await store.thread("t").load()
        total = await measured(h, other, lambda it: it.lookups >= 2 and it.writes >= 2)
        assert (total.lookups, total.writes, total.replicas) == (2, 2, 2)
        assert total.lookup_p50 is not None
        assert total.lookup_p99 is not None
        assert 0 < total.lookup_p50 <= total.lookup_p99
        assert (total.failures, total.kept, total.breakers_open, total.concerned) == (0, 0, 0, {})
        found = await other.signals(since=timedelta(minutes=5))
        assert found.step == 10.0
        assert sum(point.lookups for point in found.points) == 2
        assert all(point.at <= found.until for point in found.points)
        ids = [info.id for info in await other.replicas()]
        alone = await other.signals(replica=ids[0])
        assert (alone.total.lookups, alone.total.replicas) == (1, 1)
        assert (await other.signals(replica="nobody")).points == ()


@case
async def what_happened_names_whom_it_concerned(h: StoreHarness) -> None:
    async with h.store(heartbeat=SOON) as store:
        other = h.new_id()
        tenant = store.within(other)
        for each in (store, tenant):
            thread = each.thread("t" if each is store else "theirs")
            await thread.append({"n": 1})
            with raises(StateConflictError):
                await thread.append({"n": 2}, expect=0)
        total = await measured(h, store, lambda it: it.conflicts >= 2)
        assert total.concerned == {"conflicts": (Concern("thread", "t"),)}
        theirs = (await tenant.signals()).total  # a tenant's are named to nobody else
        assert theirs.conflicts == 2
        assert theirs.concerned == {"conflicts": (Concern("thread", "theirs"),)}


@case
async def an_outage_is_told_when_it_is_over(h: StoreHarness) -> None:
    async with (
        severable(h, heartbeat=SOON, breaker_seconds=0.05) as store,
        h.store(heartbeat=None) as other,
    ):
        await store.thread("t").append({"n": 1})
        await measured(h, other, lambda it: it.writes > 0)
        with store.faults.unavailable():
            assert (await store.thread("t").append({"n": 2})).status == "spilled"
            failed = store.counters.heartbeats_failed
            await until(h, lambda: store.counters.heartbeats_failed > failed + 1)
        total = await measured(h, other, lambda it: it.suppressed > 0)
        assert total.suppressed == 1
        assert total.concerned["suppressed"] == (Concern("thread", "t"),)
        assert total.kept == 1
        await until(h, lambda: store.counters.replayed > 0)


def stretches(readings: Readings, count: int, start: float, **kept: Any) -> float:
    """Measure for so many times five minutes; when that is over."""
    for n in range(count * 2):
        at = start + n * STRETCH / 2
        readings.add(Reading(at=at, lookups=[10, 2, 20, 1], counts={"suppressed": 1}, **kept))
    return start + count * STRETCH


@clock_case
async def a_day_is_kept_and_no_more(h: StoreHarness) -> None:
    replica, entity = await h.replica(), h.entity("host:1:a", HEARTBEAT)
    readings, now = Readings(), h.world.now() - 1.5 * DAY
    async with h.store(heartbeat=None) as store:
        for _ in range(12):  # a day and a half
            now = stretches(readings, STRETCHES // 8, now)
            (stored,) = await replica.execute(beating(entity, h.new_id(), BEAT, readings.writes()))
            assert isinstance(stored, Applied)
            readings.stored(stored.version)
        head = await replica.head(entity)
        assert head.live <= STRETCHES
        found = await store.signals(since=DAY, step=3600.0)
        assert 24 <= len(found.points) <= 25
        assert found.total.suppressed == sum(point.suppressed for point in found.points)
        assert 2 * STRETCHES - 2 <= found.total.suppressed <= 2 * STRETCHES + 2
        assert found.total.lookups == 3 * found.total.suppressed
        await h.pass_time(DAY + 1)
        assert (await store.signals(since=DAY)).points == ()
        assert not (await replica.head(entity)).exists


@clock_case
async def a_process_that_has_ended_is_forgotten_before_what_it_measured(h: StoreHarness) -> None:
    replica, entity, readings = await h.replica(), h.entity("a", HEARTBEAT), Readings()
    async with h.store(heartbeat=None) as store:
        stretches(readings, 1, h.world.now() - STRETCH)
        await replica.execute(closing(entity, h.new_id(), BEAT, readings.writes()))
        assert [info.status for info in await store.replicas()] == ["closed"]
        await h.pass_time(SHOWN + 1)
        assert await store.replicas() == []
        assert (await store.signals()).points == ()
        assert (await store.signals(since=2 * SHOWN)).total.suppressed == 2


@case
async def a_beat_that_is_stored_twice_counts_once(h: StoreHarness) -> None:
    replica, entity, readings = await h.replica(), h.entity("a", HEARTBEAT), Readings()
    async with h.store(heartbeat=None) as store:
        stretches(readings, 3, h.world.now() - 3 * STRETCH)
        for _ in range(2):  # nobody heard that the first one was stored
            await replica.execute(beating(entity, h.new_id(), BEAT, readings.writes()))
        assert (await store.signals()).total.suppressed == 6


@case
async def whom_something_concerned_is_bounded_and_the_newest_come_first(h: StoreHarness) -> None:
    replica, entity, readings = await h.replica(), h.entity("a", HEARTBEAT), Readings()
    now = h.world.now()
    async with h.store(heartbeat=None) as store:
        for n in range(29):
            concerned = {"late": [(h.namespace, "thread", f"{n}-{which}") for which in range(3)]}
            readings.add(Reading(at=now - 290 + 10 * n, concerned=concerned))
        await replica.execute(beating(entity, h.new_id(), BEAT, readings.writes()))
        found = await store.signals()
        assert found.total.concerned["late"][0].id.startswith("28-")
        assert len(found.total.concerned["late"]) == 5
        assert sum(len(point.concerned.get("late", ())) for point in found.points) == 20


@case
async def what_another_release_measured_is_passed_over(h: StoreHarness) -> None:
    replica, entity = await h.replica(), h.entity("a", HEARTBEAT)
    async with h.store(heartbeat=None) as store:
        at = h.world.now() - 5
        latest = f'[{{"at":{at},"more":[1],"counts":{{"late":2,"odd":7}},"lookups":[900,1]}}]'
        writes = (Put(SIGNALS, latest), Append(('"odd"', '{"n":1}', '"eJw="')), SetHead(due_in=99))
        await replica.commit(entity, *writes)
        await replica.commit(Entity(h.namespace, HEARTBEAT, "b"), Put(SIGNALS, '{"no": "list"}'))
        found = (await store.signals()).total
        assert (found.late, found.lookups, found.replicas) == (2, 1, 1)


@case
async def nonsense_is_refused_in_words(h: StoreHarness) -> None:
    async with h.store() as store:
        for wrong in ({"since": 0}, {"since": DAY + 1}, {"since": "1h"}, {"step": 1}, {"step": -1}):
            asked: Any = wrong
            with raises(InvalidInput):
                await store.signals(**asked)
        found = await store.signals(since=DAY)
        assert (found.step, found.points, found.total.replicas) == (240.0, (), 0)
