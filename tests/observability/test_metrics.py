"""What is counted is what happened, in both colours, and no id is ever a label."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import msgspec
import pytest
from broken_engines import DropsAcknowledged, ServesStale

import stateward
from observability.colours import Open, commit, enter, leave, ok
from stateward import KeyReusedError, LeaseHeld, Policy, StateConflictError, StoreUnavailable, sync
from stateward.engine import Description
from stateward.engines.registry import create_engine, parse
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.metrics import DURATIONS, Histogram, quantile
from stateward.observe.recorder import KINDS, Recorder
from stateward.observe.sizes import Sizes
from stateward.ops import Acquire, Append, Entity, Fence, Fetch, Fetched, Head, Release, SetHead
from stateward.repeats import RepeatDetector
from stateward.testing.clock import SteppableWorld
from stateward.world import World

HELLO = {"role": "user", "content": "hello"}
DURATION = "stateward_operation_duration_seconds"


# --- what every operation leaves --------------------------------------------------------


async def test_every_operation_is_counted_by_kind_and_name(store: Any) -> None:
    thread, user = store.thread("s-1", user="u-1"), store.user("u-1")
    for _ in range(3):
        await ok(thread.append(HELLO))
    await ok(thread.load())
    await ok(user.put({"a": 1}))
    await ok(user.update(lambda value: value | {"b": 2}))
    await ok(store.context(user="u-1", thread="s-1"))
    await ok(store.sweep())
    metrics = store.metrics()
    counted = {
        (kind, operation): metrics.value(DURATION, kind=kind, operation=operation)
        for kind, operation in [
            ("thread", "append"),
            ("thread", "load"),
            ("user", "put"),
            ("user", "get"),
            ("user", "update"),
            ("workflow", "list"),
            ("stream", "list"),
            ("store", "sweep"),
        ]
    }
    assert counted == {
        ("thread", "append"): 3,
        ("thread", "load"): 3,  # one for system messages, and one of them with the context
        ("user", "put"): 1,
        ("user", "get"): 2,
        ("user", "update"): 1,
        ("workflow", "list"): 1,
        ("stream", "list"): 1,  # of the sweep, for those whose writer is gone
        ("store", "sweep"): 1,
    }
    assert metrics.value("stateward_operations_total", outcome="ok") == 13
    assert metrics.value("agent_state_lookup_success_total", engine="memory") == 7
    took = metrics.distribution(DURATION, kind="thread")
    assert 0 < took.p50 <= took.p95 <= took.p99 < 30
    assert took.sum > 0


async def test_a_snapshot_is_plain_data_with_every_family(store: Any) -> None:
    await ok(store.thread("s-1").append(HELLO))
    said = msgspec.json.decode(msgspec.json.encode(store.metrics()))
    assert [family["name"] for family in said["families"]] == [d.name for d in CATALOGUE]
    assert {family["type"] for family in said["families"]} == {"counter", "gauge", "histogram"}


async def test_without_metrics_nothing_is_counted(open_store: Open) -> None:
    store = open_store(metrics=False)
    await ok(store.thread("s-1").append(HELLO))
    assert all(not f.distributions for f in store.metrics().families)
    await ok(store.close())


async def test_ids_and_names_are_never_labels_and_kinds_are_few(store: Any) -> None:
    for n in range(40):
        await ok(store.thread(f"secret-{n}", user=f"secret-{n}").append(HELLO, key=f"secret-{n}"))
        await ok(store.user(f"secret-{n}").put({"a": 1}, expect=0))
    text = store.metrics().prometheus()
    assert "secret" not in text
    assert len(text.splitlines()) < 400


def test_a_flood_of_kinds_ends_in_one_series() -> None:
    recorder = Recorder("memory")
    for n in range(10_000):
        fetch = Fetch(Entity("n", f"kind-{n}", "x"))
        recorder.answered((fetch,), [Fetched(Head())], [0], 0.001, 1.0)
    assert len(recorder.series) == KINDS + 1
    assert len(recorder._by_key) <= KINDS
    others = [series for series in recorder.series if series.kind == "other"]
    assert others[0].read({}).answered == 10_000 - KINDS


# --- refusals and failures --------------------------------------------------------------


async def test_refusals_are_told_apart(store: Any) -> None:
    thread = store.thread("s-1")
    await ok(thread.append(HELLO, key="turn-1"))
    await ok(thread.append(HELLO, key="turn-1"))
    with pytest.raises(KeyReusedError):
        await ok(thread.append({"role": "user", "content": "other"}, key="turn-1"))
    with pytest.raises(StateConflictError):
        await ok(thread.append(HELLO, expect=7))
    counted = {
        outcome: store.metrics().value(
            "stateward_operations_total", operation="append", outcome=outcome
        )
        for outcome in ("ok", "duplicate", "key_reused", "conflict")
    }
    assert counted == {"ok": 1, "duplicate": 1, "key_reused": 1, "conflict": 1}


async def test_conflicts_of_updates_and_their_retries_are_counted(store: Any) -> None:
    user, faster = store.user("u-1"), [True]

    def change(value: dict[str, Any]) -> Any:
        if faster.pop() if faster else False:  # somebody else is faster, once
            return _after(user.put({"n": 7}), {"n": 0})
        return {"n": value["n"] + 1}

    assert (await ok(user.update(change))).value == {"n": 8}
    metrics = store.metrics()
    assert metrics.value("stateward_operations_total", kind="user", outcome="conflict") == 1
    assert metrics.value("stateward_retries_total", reason="conflict") == 1


def _after(first: Any, value: Any) -> Any:
    """The value, once the other call is done: at once for blocking code."""
    if not inspect.isawaitable(first):
        return value

    async def wait() -> Any:
        await first
        return value

    return wait()


async def test_what_the_store_fails_is_counted_by_error_and_retried(store: Any) -> None:
    await ok(store.thread("s-1").load())
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await ok(store.thread("s-1").load())
    metrics = store.metrics()
    failed = metrics.family("stateward_operation_errors_total").samples
    assert [(s.labels["kind"], s.labels["operation"], s.value) for s in failed] == [
        ("thread", "load", 1)
    ]
    assert failed[0].labels["error"] in ("StoreUnavailable", "StoreTooSlow")
    assert metrics.value("agent_state_lookup_error_total") == 1
    assert metrics.value("agent_state_lookup_success_total") == 1
    assert metrics.value("stateward_retries_total", reason="unavailable") > 0


async def test_suppressed_spilled_and_replayed_appends_are_counted(store: Any) -> None:
    thread = store.thread("s-1")
    await ok(thread.append(HELLO))
    with store.faults.unavailable():
        assert (await ok(thread.append(HELLO))).status == "spilled"
        during = store.metrics()
    assert during.value("stateward_suppressed_writes_total") == 1
    assert during.value("stateward_spilled_writes_total") == 1
    appended = {"kind": "thread", "operation": "append"}
    assert during.value("stateward_operations_total", **appended, outcome="spilled") == 1
    assert during.value("stateward_operation_errors_total", **appended) == 1
    assert during.value("stateward_spill_depth") == 1
    assert during.value("stateward_spill_age_seconds") > 0
    assert len((await ok(thread.load())).messages) == 2
    after = store.metrics()
    assert after.value("stateward_replayed_writes_total") == 1
    assert after.value("stateward_spill_depth") == 0
    assert after.value("stateward_spill_age_seconds") == 0


async def test_a_store_that_is_down_shows_as_an_open_breaker(open_store: Open) -> None:
    policy = Policy(read_timeout=0.2, write_timeout=0.2, breaker_failures=2)
    store = open_store(policy=policy)
    await ok(store.thread("s-1").load())
    assert store.metrics().value("stateward_breaker_open") == 0
    with store.faults.unavailable():
        for _ in range(8):
            with pytest.raises(StoreUnavailable):
                await ok(store.thread("s-1").load())
        metrics = store.metrics()
    assert metrics.value("stateward_breaker_open") == 1
    assert metrics.value("stateward_breaker_refused_total") > 0
    await ok(store.close())


# --- consistency ------------------------------------------------------------------------


async def test_a_commit_of_unknown_fate_is_counted(open_store: Open) -> None:
    store = open_store(policy=Policy(read_timeout=0.1, write_timeout=0.1, threads="raise"))
    await ok(store.thread("s-1").append(HELLO))
    with store.faults.lose_reply(times=1000) as fault, pytest.raises(StoreUnavailable) as raised:
        await ok(store.thread("s-1").append(HELLO))
    assert fault.fired
    assert raised.value.applied == "unknown"
    assert store.metrics().value("stateward_consistency_errors_total", problem="unknown") == 1
    await ok(store.close())


async def test_a_refused_fence_is_counted(store: Any) -> None:
    scope = store._scope
    thread = scope.entity("thread", "s-1")
    await commit(store, thread, (Append(('{"a":1}',)),))
    granted = await commit(store, thread, (Acquire("nonce", 30.0),))
    await commit(store, thread, (Release(granted.lease.token, "nonce"),))
    fence = Fence(granted.lease.token, "nonce")
    await commit(store, thread, (Append(('{"a":2}',)),), (fence,))
    metrics = store.metrics()
    assert metrics.value("stateward_consistency_errors_total", problem="fenced") == 1
    assert metrics.value("stateward_consistency_errors_total", problem="backwards") == 0


async def test_following_a_history_that_began_anew_is_a_reset(store: Any) -> None:
    thread = store.thread("s-1")
    window = await ok(thread.load())
    await ok(thread.append(HELLO))
    window = await ok(thread.load())
    await ok(thread.delete())
    await ok(thread.append(HELLO))
    with pytest.raises(stateward.Reset):
        await ok(thread.load(after=window))
    assert store.metrics().value("stateward_consistency_errors_total", problem="reset") == 1
    assert store.metrics().value("stateward_consistency_errors_total", problem="backwards") == 0


@pytest.mark.parametrize("broken", [ServesStale, DropsAcknowledged])
@pytest.mark.parametrize("seed", range(3))
async def test_a_store_that_goes_back_is_noticed(broken: type[Any], seed: int) -> None:
    engine = broken(create_engine(parse("memory://"), World()), seed=seed)
    async with stateward.Store(engine) as store:
        thread = store.thread("s-1")
        for _ in range(40):
            await thread.append(HELLO)
            await thread.load(last=1)
        assert engine.broke > 0
        assert store.metrics().value("stateward_consistency_errors_total", problem="backwards") > 0


async def test_many_writers_of_one_honest_store_never_look_like_going_back(
    open_store: Open,
) -> None:
    store = open_store()

    async def talk(name: str) -> None:
        for n in range(30):
            await ok(store.thread("s-1").append(HELLO))
            await ok(store.user("u-1").update(lambda value, n=n: value | {name: n}))
            await ok(store.thread("s-1").load(last=2))
            if n % 10 == 9:
                await ok(store.thread("s-1").delete())

    if isinstance(store, stateward.Store):
        await asyncio.gather(*(talk(f"w{n}") for n in range(8)))
    else:
        workers = [threading.Thread(target=asyncio.run, args=(talk(f"w{n}"),)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    metrics = store.metrics()
    assert metrics.value(DURATION, operation="append") == 240
    assert metrics.value("stateward_consistency_errors_total") == 0
    assert metrics.value("stateward_retries_total", reason="conflict") >= 0
    await ok(store.close())


# --- leases -----------------------------------------------------------------------------


async def test_taking_over_from_a_dead_holder_is_counted_and_a_handover_is_not(
    open_store: Open,
) -> None:
    clock = SteppableWorld()
    store = open_store(world=clock)
    dead = store._scope.entity("lock", "inventory")
    await commit(store, dead, (Acquire("the dead one's", 30.0, "dead"),))
    with pytest.raises(LeaseHeld):
        await enter(store.lock("inventory", wait=0))
    clock.advance(seconds=31)
    taken = store.lock("inventory", wait=0)
    await enter(taken)
    with pytest.raises(LeaseHeld):
        await enter(store.lock("inventory", wait=0))
    await leave(taken)
    again = store.lock("inventory", wait=0)  # given back in order: no takeover
    await enter(again)
    await leave(again)
    metrics = store.metrics()
    assert metrics.value("stateward_lease_takeovers_total", engine="memory", kind="lock") == 1
    assert metrics.value("stateward_operations_total", outcome="held") == 2
    await ok(store.close())


async def test_taking_over_an_abandoned_workflow_and_an_abandoned_task_is_counted(
    open_store: Open,
) -> None:
    clock = SteppableWorld()
    store = open_store(world=clock)
    scope = store._scope
    for kind, status in (("workflow", "active"), ("task", "running")):
        entity = scope.entity(kind, "abandoned")
        writes = (Acquire("dead", 30.0, "dead"), SetHead(status=status, label="kind", due_in=30.0))
        await commit(store, entity, writes)
    clock.advance(seconds=31)
    block = store.workflow("abandoned", kind="refund", wait=0)
    await enter(block)
    await leave(block)
    assert await ok(store.once("abandoned", str, 3, wait=0)) == "3"
    takeovers = store.metrics().family("stateward_lease_takeovers_total").samples
    assert {(s.labels["kind"], s.value) for s in takeovers} == {("workflow", 1), ("task", 1)}
    await ok(store.close())


# --- batches ----------------------------------------------------------------------------


async def test_what_travels_together_shows_in_the_size_of_batches(tmp_path: Any) -> None:
    async with stateward.open(f"sqlite:///{tmp_path}/a.db") as store:
        await asyncio.gather(*(store.thread(f"s-{n}").append(HELLO) for n in range(64)))
        sizes = store.metrics().distribution("stateward_batch_size", lane="write")
    assert sizes.sum == 64
    assert sizes.count < 64


# --- the cache, and several engines -----------------------------------------------------


async def test_hits_and_misses_of_the_cache_are_counted(open_store: Open, tmp_path: Any) -> None:
    store = open_store(f"sqlite:///{tmp_path}/a.db", cache=stateward.Cache())
    thread = store.thread("s-1")
    await ok(thread.append(HELLO))
    for _ in range(10):
        await ok(thread.load(last=5))
    metrics = store.metrics()
    hits, misses = (
        metrics.value("stateward_cache_lookups_total", result=result) for result in ("hit", "miss")
    )
    assert hits >= 8
    assert 1 <= misses <= 3
    await ok(store.close())


async def test_a_layered_store_counts_each_engine_by_its_name(tmp_path: Any) -> None:
    policy = Policy(read_timeout=0.2, write_timeout=0.2)
    memory = f"memory://{tmp_path.name}"
    async with stateward.open(
        threads=f"sqlite:///{tmp_path}/a.db", users=memory, workflows=memory, policy=policy,
        cache=stateward.Cache(),
    ) as store:  # fmt: skip
        await store.thread("s-1", user="u-1").append(HELLO)
        await store.user("u-1").put({"a": 1})
        for _ in range(3):
            await store.context(user="u-1", thread="s-1")
        await store.describe()
        metrics = store.metrics()
    counted = store.counters
    assert metrics.value(DURATION, engine="sqlite", kind="thread", operation="append") == 1
    assert metrics.value(DURATION, engine="memory", kind="user", operation="put") == 1
    assert metrics.value(DURATION, engine="memory", kind="workflow", operation="list") == 3
    assert metrics.value(DURATION, engine="sqlite", kind="user") == 0
    assert metrics.value("stateward_storage_rows", engine="sqlite") == 2
    assert metrics.value("stateward_storage_rows", engine="memory") == 3
    asked = metrics.value("stateward_cache_lookups_total")
    assert asked == counted.cache_hits + counted.cache_misses > 0  # shared, and read once


# --- conversations ----------------------------------------------------------------------


async def test_what_a_detector_finds_is_counted_as_a_context_break(open_store: Open) -> None:
    store = open_store()
    store._scope.listener = RepeatDetector()
    asked = {"role": "assistant", "content": "Which colour do you prefer?"}
    thread = store.thread("s-1")
    await ok(thread.append(asked, {"role": "user", "content": "Green."}))
    await ok(thread.append(asked, {"role": "user", "content": "I already told you."}))
    metrics = store.metrics()
    assert metrics.value("stateward_context_breaks_total", reason="asked_again") == 1
    assert metrics.value("stateward_context_breaks_total") >= 2
    await ok(store.close())


# --- storage ----------------------------------------------------------------------------


class Later(World):
    """A world whose monotonic clock a test moves."""

    def __init__(self) -> None:
        self.later = 0.0

    def monotonic(self) -> float:
        return 1000.0 + self.later


class Grows:
    """Says of itself what it is told to."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.bytes = 1_000

    def open(self) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed += 1

    def describe(self) -> Description:
        return Description("x", "1", 1, "", bytes=self.bytes, rows=7, capacity=101_000)


def test_growth_a_day_and_days_to_full_come_from_looks_that_are_a_day_apart() -> None:
    world, engine = Later(), Grows()
    storage = Sizes(engine, world)  # type: ignore[arg-type]
    assert storage.growth() is None
    storage.look()
    first = storage.growth()
    assert first is not None
    assert (first.bytes, first.rows, first.bytes_a_day, first.days_to_full) == (1000, 7, None, None)
    for _ in range(24 * 12 * 2):  # two days, one look every five minutes
        world.later += 300
        engine.bytes += 10
        storage.look()
        storage.look()  # at once: not asked again
    grown = storage.growth()
    assert grown is not None
    assert grown.bytes_a_day == pytest.approx(2880, rel=0.01)
    assert grown.days_to_full == pytest.approx((101_000 - engine.bytes) / 2880, rel=0.01)
    assert engine.opened == engine.closed == 24 * 12 * 2 + 1


def test_a_store_that_does_not_grow_is_never_full() -> None:
    world, engine = Later(), Grows()
    storage = Sizes(engine, world)  # type: ignore[arg-type]
    for _ in range(5):
        storage.look()
        world.later += 3600
        engine.bytes -= 1
    grown = storage.growth()
    assert grown is not None
    assert grown.bytes_a_day is not None
    assert grown.bytes_a_day < 0
    assert grown.days_to_full is None


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_an_engine_says_how_many_rows_and_bytes_it_holds(url: str, tmp_path: Any) -> None:
    async with stateward.open(url if "://" in url else f"sqlite:///{tmp_path}/a.db") as store:
        for n in range(10):
            await store.thread(f"s-{n}").append(HELLO, HELLO)
        await store.user("u-1").put({"a": 1})
        said = await store.describe()
        assert said.rows == 11 + 20 + 2  # a document, and what it is in its history
        if said.capacity is not None:
            assert said.bytes is not None
            assert said.capacity > said.bytes
        name = store._scope.capabilities.system
        assert store.metrics().value("stateward_storage_rows", engine=name) == 33


# --- the arithmetic ---------------------------------------------------------------------


def test_percentiles_are_where_they_should_be() -> None:
    histogram = Histogram(DURATIONS)
    for n in range(1, 1001):
        histogram.add(n / 1000)  # 1 ms to 1 s
    read = histogram.read({})
    assert read.p50 == pytest.approx(0.5, rel=0.05)
    assert read.p95 == pytest.approx(0.95, rel=0.05)
    assert read.p99 == pytest.approx(0.99, rel=0.05)
    assert quantile(DURATIONS, [0] * len(read.counts), 0.5) is None
    histogram.add(3600.0)
    assert histogram.read({}).counts[-1] == 1


def test_threads_lose_no_count() -> None:
    store = sync.open("memory://")
    store.thread("s-1").append(HELLO)

    def work() -> None:
        for _ in range(500):
            store.user("u-1").get()

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert store.metrics().value("agent_state_lookup_success_total") == 4000
    store.close()


def test_no_counter_ever_shrinks_while_threads_are_at_work() -> None:
    """To Prometheus a counter that shrinks is a restart, and the next rate a mountain."""
    store = sync.open("memory://")
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            store.thread("s-1").append(HELLO, key="always the same")  # a duplicate, but once

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    before: dict[Any, float] = {}
    shrunk = []
    for _ in range(300):
        for family in store.metrics().families:
            for sample in family.samples if family.type == "counter" else ():
                key = (family.name, *sample.labels.items())
                if sample.value < before.get(key, 0.0):
                    shrunk.append(key)
                before[key] = sample.value
    over.set()
    for worker in workers:
        worker.join()
    assert shrunk == []
    assert store.metrics().value("stateward_operations_total", outcome="duplicate") > 10
    store.close()
