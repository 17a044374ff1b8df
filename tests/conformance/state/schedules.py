"""Schedules: each tick once, whichever worker is there; what was missed is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import rounds
from conformance.state.methods import PATIENT, SECRET, Meanwhile, found_in
from conformance.state.tasks import Calls, listed, statuses
from stateward.errors import InvalidInput, NotYoursError
from stateward.ops import Put, SetHead
from stateward.records import ScheduleInfo
from stateward.state.schedule_record import STATE, OnMissed, ScheduleState, state_text
from stateward.store import Store
from stateward.testing.conformance.harness import raises
from stateward.world import World

EVERY_SECOND = "* * * * * *"
HOURLY = "0 * * * *"
HOUR = 3600.0


async def work(store: Store, calls: Callable[..., Any], number: int = 3) -> None:
    """Some rounds of a worker: more than one, since a tick and its task are two things to do."""
    await store.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(number))


async def shown(store: Store, id: str = "s") -> ScheduleInfo:
    info = await store.schedule(id).info()
    assert info is not None
    return info


def ticks(calls: Calls) -> list[datetime]:
    """When those who were called are told that they were due."""
    return sorted(datetime.fromisoformat(kwargs["at"]) for _, kwargs in calls.seen)


# --- declared ---------------------------------------------------------------------------


@case
async def a_schedule_is_declared_once_and_says_when_it_is_due(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        assert await store.schedule("s").info() is None
        tokyo: dict[str, Any] = {"kwargs": {}, "tz": "Asia/Tokyo"}
        declared = await store.schedule("s").declare(HOURLY, task="calls", args=[1], **tokyo)
        assert (declared.id, declared.status, declared.user) == ("s", "active", None)
        assert (declared.cron, declared.tz) == (HOURLY, "Asia/Tokyo")
        assert (declared.task, declared.workflow) == ("calls", None)
        now = datetime.fromtimestamp(h.world.now(), UTC)
        assert declared.next_at is not None
        assert now < declared.next_at <= now + timedelta(hours=1, seconds=5)
        assert (declared.next_at.minute, declared.next_at.second) == (0, 0)
        assert (declared.last_at, declared.last_id, declared.missed) == (None, None, 0)
        again = await other.schedule("s").declare(HOURLY, task=Calls(), args=(1,), **tokyo)
        assert again == declared == await shown(other)
        assert [info async for info in other.schedules()] == [declared]
        changed = await other.schedule("s").declare("0 3 * * *", task="calls")
        assert changed.next_at is not None
        assert changed.next_at.hour == 3
        assert await shown(store) == changed


@case
async def what_cannot_be_meant_is_refused_and_nothing_is_declared(h: StoreHarness) -> None:
    async with h.store() as store:
        schedule = store.schedule("s")
        wrong: tuple[tuple[str, dict[str, Any]], ...] = (
            ("61 * * * *", {"task": "t"}),
            ("0 3 * *", {"task": "t"}),
            ("0 0 30 2 *", {"task": "t"}),
            ("", {"task": "t"}),
            (HOURLY, {}),
            (HOURLY, {"task": "t", "workflow": "w"}),
            (HOURLY, {"task": ""}),
            (HOURLY, {"task": lambda: None}),
            (HOURLY, {"task": "t", "tz": "Europe/Bielefeld"}),
            (HOURLY, {"task": "t", "tz": "../etc/passwd"}),
            (HOURLY, {"task": "t", "tz": ""}),
            (HOURLY, {"task": "t", "missed": "never"}),
            (HOURLY, {"task": "t", "at_most": 0}),
            (HOURLY, {"task": "t", "at_most": 100_000}),
            (HOURLY, {"task": "t", "grace": -1}),
            (HOURLY, {"task": "t", "attempts": 0}),
            (HOURLY, {"task": "t", "retain": 60}),
            (HOURLY, {"task": "t", "args": [object()]}),
            (HOURLY, {"workflow": "w", "input": [1], "tick": "at"}),
        )
        for cron, options in wrong:
            with raises(InvalidInput):
                await schedule.declare(cron, **options)
        with raises(InvalidInput):
            await store.schedule("x" * 500).declare(HOURLY, task="t")
        assert [info async for info in store.schedules()] == []
        for operate in (schedule.pause, schedule.resume):
            with raises(InvalidInput):
                await operate()
        await schedule.remove()
        with raises(InvalidInput):
            store.schedule("")


# --- run --------------------------------------------------------------------------------


@case
async def each_tick_runs_once_over_any_number_of_workers(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        declared = await store.schedule("s").declare(
            EVERY_SECOND, task=calls, args=["sales"], tick="at", missed="all"
        )
        for number in range(4):
            await h.pass_time(1.0)
            await work((store, other)[number % 2], calls)
            await work((other, store)[number % 2], calls)
        seen = ticks(calls)
        assert len(seen) >= 4
        assert declared.next_at is not None
        assert seen == [declared.next_at + timedelta(seconds=n) for n in range(len(seen))]
        assert {args for args, _ in calls.seen} == {("sales",)}
        assert len(set(calls.keys)) == len(seen)
        ids = [info.id for info in await listed(other, "completed")]
        assert ids == [f"s@{tick:%Y-%m-%dT%H:%M:%SZ}" for tick in seen]
        info = await shown(other)
        assert info.last_at is not None
        assert info.last_at >= seen[-1]
        assert (info.skipped, info.missed) == (0, 0)
        if info.last_at == seen[-1]:
            assert (info.last_id, info.last_status) == (ids[-1], "completed")


@case
async def a_tick_that_failed_is_shown_and_tried_again(h: StoreHarness) -> None:
    async with h.store() as store:
        broken = Calls(failing=99)
        await store.schedule("s").declare(EVERY_SECOND, task=broken, attempts=1)
        await h.pass_time(1.0)
        await work(store, broken)
        await store.schedule("s").pause()
        await work(store, broken)  # what was recorded before
        info = await shown(store)
        assert (info.last_status, info.last_error) == ("failed", "ValueError: not today")
        assert info.last_id is not None
        await store.task(info.last_id).retry()
        mended = Calls()
        await work(store, mended)
        assert mended.count >= 1
        assert (await shown(store)).last_status == "completed"


@case
async def a_tick_begins_a_workflow(h: StoreHarness) -> None:
    async with h.store() as store:
        runs: list[tuple[str, Any]] = []

        async def handle(run: Any) -> None:
            runs.append((run.id, run.input))

        declared = await store.schedule("s", user="u").declare(
            EVERY_SECOND, workflow="report", input={"of": "sales"}, tick="at"
        )
        await h.pass_time(1.0)
        await store.work({"report": handle}, poll=0.001, until=lambda: bool(runs))
        assert declared.next_at is not None
        at = f"{declared.next_at:%Y-%m-%dT%H:%M:%SZ}"
        assert runs[0] == (f"s@{at}", {"of": "sales", "at": at})
        assert {info.user async for info in store.workflows(kind="report")} == {"u"}
        assert (await shown(store)).last_status in ("active", "completed")


@case
async def a_schedule_that_is_paused_or_removed_runs_nothing(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        schedule = store.schedule("s")
        await schedule.declare(EVERY_SECOND, task=calls, missed="all")
        for _ in range(2):
            paused = await other.schedule("s").pause()
            assert (paused.status, paused.next_at) == ("paused", None)
        declared = await schedule.declare(EVERY_SECOND, task=calls, missed="all", args=[1])
        assert (declared.status, declared.next_at) == ("paused", None)
        await h.pass_time(2.0)
        await work(other, calls)
        assert calls.count == 0
        for _ in range(2):
            resumed = await schedule.resume()
            assert (resumed.status, resumed.missed) == ("active", 0)
            assert resumed.next_at is not None
        await h.pass_time(1.0)
        await work(other, calls)
        # The ticks of the pause are not among them.
        assert calls.count >= 1
        assert calls.count == (await shown(store)).skipped + len(await listed(store, "completed"))
        await schedule.remove()
        assert await schedule.info() is None
        await work(other, calls)
        before = calls.count
        await h.pass_time(2.0)
        await work(other, calls)
        assert calls.count == before


@case
async def a_schedule_belongs_to_its_user_and_goes_with_them(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        await store.schedule("s", user="u").declare(EVERY_SECOND, task=calls)
        await store.schedule("nobody's").declare(HOURLY, task=calls)
        with raises(NotYoursError):
            await store.schedule("s", user="v").pause()
        with raises(NotYoursError):
            await store.schedule("s", user="v").info()
        assert [info.id async for info in store.schedules("u")] == ["s"]
        await h.pass_time(1.0)
        await work(store, calls)
        assert {info.user for info in await listed(store)} == {"u"}
        await store.user("u").erase()
        before = calls.count
        await h.pass_time(1.0)
        await work(store, calls)
        assert calls.count == before
        assert [info.id async for info in store.schedules()] == ["nobody's"]


@clock_case
async def a_tick_under_way_brings_nothing_back_that_was_erased(h: StoreHarness) -> None:
    """An erasure before every single call that a worker makes to the engine."""
    replica = await h.replica()
    targets: tuple[dict[str, Any], ...] = (
        {"task": "nobody's", "args": [SECRET]},
        {"workflow": "nobody's", "input": SECRET},
    )
    for target in targets:
        at = 0
        while True:
            at += 1
            namespace = f"{h.namespace}-{at}-{len(target)}-{'task' in target}"
            async with h.store(namespace=namespace, policy=PATIENT) as other:
                await other.schedule("s", user="u").declare(HOURLY, **target)
                await h.pass_time(HOUR)
                engine = Meanwhile(h.make_engine(), at, other.user("u").erase)
                options: dict[str, Any] = {"policy": PATIENT, "world": h.world, "spill": False}
                async with Store(engine, namespace=namespace, **options) as store:
                    await store.work({}, poll=0.001, until=rounds(2))
                if engine.calls < at:
                    break
                left = await found_in(replica, namespace, SECRET)
                assert left == [], f"erased before call {at}: {left}"


class Ahead(World):
    """A machine whose clock is two hours fast."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return self._world.now() + 2 * HOUR

    def monotonic(self) -> float:
        return self._world.monotonic()


@case
async def a_worker_whose_clock_is_fast_runs_no_tick_early(h: StoreHarness) -> None:
    async with h.store(world=Ahead(h.world)) as store:
        calls = Calls()
        declared = await store.schedule("s").declare("0 */1 * * *", task=calls, missed="all")
        assert declared.next_at is not None
        assert declared.next_at.timestamp() - h.world.now() <= HOUR
        await store.schedule("often").declare(EVERY_SECOND, task=calls, missed="all")
        await h.pass_time(1.0)
        await work(store, calls)
        if declared.next_at.timestamp() > h.world.now():
            assert {info.id.partition("@")[0] for info in await listed(store)} == {"often"}
        assert [info.missed async for info in store.schedules()] == [0, 0]


# --- missed -----------------------------------------------------------------------------


@clock_case
async def what_was_missed_is_skipped_run_once_or_all_run_and_always_told(h: StoreHarness) -> None:
    async with h.store() as store:
        policies: tuple[tuple[OnMissed, int], ...] = (("skip", 0), ("once", 1), ("all", 3))
        for missed, run in policies:
            calls = Calls()
            id = f"s-{missed}"
            declared = await store.schedule(id).declare(
                HOURLY, task=calls, tick="at", missed=missed, at_most=3
            )
            assert declared.next_at is not None
            first = declared.next_at
            now = datetime.fromtimestamp(h.world.now(), UTC)
            await h.pass_time((first - now).total_seconds() + 5.5 * HOUR)
            await work(store, calls)
            gone = [first + timedelta(hours=number) for number in range(6)]
            assert ticks(calls) == gone[6 - run :]
            info = await shown(store, id)
            assert (info.missed, info.skipped) == (6, 6 - run)
            assert (info.missed_from, info.missed_to) == (gone[0], gone[-1])
            assert info.next_at == first + timedelta(hours=6)
            # The next one is in time again.
            await h.pass_time(HOUR / 2)
            await work(store, calls)
            assert ticks(calls) == [*gone[6 - run :], first + timedelta(hours=6)]
            assert (await shown(store, id)).skipped == 6 - run
            await store.schedule(id).remove()
        counters = store.counters
        assert (counters.ticks_on_time, counters.ticks_late, counters.ticks_skipped) == (3, 4, 14)


@clock_case
async def a_tick_within_its_grace_was_not_missed(h: StoreHarness) -> None:
    async with h.store() as store:
        for late, run in ((0.0, 1), (60.0, 1), (61.0, 0)):
            calls = Calls()
            declared = await store.schedule("s").declare(HOURLY, task=calls, missed="skip")
            assert declared.next_at is not None
            await h.pass_time(declared.next_at.timestamp() - h.world.now() + late)
            await work(store, calls)
            assert calls.count == run


@clock_case
async def a_year_of_missed_minutes_is_told_and_the_newest_are_run(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        await store.schedule("s").declare(
            "* * * * *", task=calls, tick="at", missed="all", at_most=5, grace=0
        )
        await h.pass_time(366 * 24 * HOUR)
        now = datetime.fromtimestamp(h.world.now(), UTC)
        await work(store, calls)
        seen = ticks(calls)
        assert len(seen) == 5
        assert timedelta(0) <= now - seen[-1] <= timedelta(minutes=1)
        assert seen[-1] - seen[0] == timedelta(minutes=4)
        info = await shown(store)
        assert info.missed >= 10_000
        assert info.next_at == seen[-1] + timedelta(minutes=1)


@clock_case
async def a_clock_that_is_set_back_runs_no_tick_again(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        declared = await store.schedule("s").declare(HOURLY, task=calls, tick="at")
        assert declared.next_at is not None
        await h.pass_time(declared.next_at.timestamp() - h.world.now())
        await work(store, calls)
        h.step_back(HOUR)
        await work(store, calls)
        await h.pass_time(HOUR)
        await work(store, calls)
        assert ticks(calls) == [declared.next_at]
        await h.pass_time(HOUR)
        await work(store, calls)
        assert ticks(calls) == [declared.next_at, declared.next_at + timedelta(hours=1)]


@case
async def what_another_worker_has_decided_is_carried_out_by_the_next(h: StoreHarness) -> None:
    """It died after it had decided, and before it had recorded anything."""
    async with h.store() as store:
        calls = Calls()
        await store.schedule("s").declare(HOURLY, task=calls, tick="at")
        replica = await h.replica()
        gone = (h.world.now() // 1) - HOUR
        await replica.apply(h.entity("s", "schedule"), *decided(gone, gone + 10 * HOUR))
        await work(store, calls)
        assert [tick.timestamp() for tick in ticks(calls)] == [gone]
        await work(store, calls)
        assert calls.count == 1
        assert (await statuses(store)).popitem()[1] == "completed"
        info = await shown(store)
        assert info.next_at == datetime.fromtimestamp(gone + 10 * HOUR, UTC)


def decided(planned: float, then: float) -> tuple[Put, SetHead]:
    """What a worker writes that is about to record one tick."""
    state = ScheduleState(next=then, planned=[planned], last=planned)
    return Put(STATE, state_text(state)), SetHead(due_in=0.0)
