"""A plain append never fails the answer; what it kept reaches the store once and in order."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from stateward import (
    DiskProblem,
    Policy,
    Spill,
    StoreFull,
    StoreUnavailable,
    TooFewReplicas,
    correlate,
)
from stateward.codec import encode
from stateward.engine import OPS_MOST
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, parse
from stateward.kinds import SPILL
from stateward.layers.outage.replay import Replayer
from stateward.layers.outage.suppression import TOGETHER
from stateward.ops import Append, Commit, Entity, Fetch, Op, Outcome
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import FaultyEngine, FaultyStore, open_faulty
from stateward.world import World

IMPATIENT = Policy(read_timeout=5.0, write_timeout=5.0, breaker_seconds=0.05)


def say(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(window: stateward.Window) -> list[str]:
    return [message["content"] for message in window.messages]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def open_store(place: str, tmp_path: Path, **options: Any) -> FaultyStore:
    chosen: dict[str, Any] = {"policy": IMPATIENT, "spill": str(tmp_path / "spill")} | options
    return open_faulty(place, identity=place, **chosen)


async def answers(store: FaultyStore) -> None:
    """Until the breaker has let calls through again."""
    for _ in range(3000):
        try:
            await store.shared("probe").put({})
            if (await store.health()).ok:
                return
        except StoreUnavailable:
            await asyncio.sleep(0.01)
    raise AssertionError("the store does not answer again")


async def version_of(store: FaultyStore, id: str) -> int:
    """Of a thread, when all that was kept of it is replayed: however many calls that takes."""
    for _ in range(3000):
        try:
            return (await store.thread(id).load()).version
        except StoreUnavailable:
            await asyncio.sleep(0.01)
    raise AssertionError("the store does not answer again")


def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "spill"
    return sorted(folder.glob("*.spill")) if folder.exists() else []


# --- what is suppressed, and what is not ------------------------------------------------


async def test_a_plain_append_is_spilled_and_everything_else_raises(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as store:
        thread = store.thread("s-1", user="u-1")
        await thread.append(say("one"))
        async with thread.lead() as lease:
            with store.faults.unavailable():
                spilled = await thread.append(say("two"), key="turn-2")
                assert (spilled.status, spilled.version) == ("spilled", 0)
                for call in (
                    thread.append(say("three"), expect=1),
                    thread.append(say("three"), fence=lease),
                    thread.load(),
                    thread.vars.put({"topic": "tea"}),
                    thread.delete(),
                    store.user("u-1").put({}),
                    store.journal("j-1").append({}),
                    store.once("t-1", int),
                    store.context(user="u-1", thread="s-1"),
                ):
                    with pytest.raises(StoreUnavailable):
                        await call
                with pytest.raises(stateward.InvalidInput):
                    await thread.append({"at": object()})
                with pytest.raises(stateward.InvalidInput):
                    await thread.append("no message")  # type: ignore[arg-type]
        await answers(store)
        assert texts(await thread.load()) == ["one", "two"]
    assert store.counters.suppressed == store.counters.spilled == 1


async def test_refusals_of_a_store_that_works_are_never_suppressed(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as store:
        thread = store.thread("s-1", user="u-1")
        await thread.append(say("one"), key="k")
        with pytest.raises(stateward.KeyReusedError):
            await thread.append(say("other"), key="k")
        with pytest.raises(stateward.NotYoursError):
            await store.thread("s-1", user="u-2").append(say("two"))
        with pytest.raises(stateward.StateConflictError):
            await thread.append(say("two"), expect=7)
    assert store.counters.suppressed == 0
    assert files(tmp_path) == []


async def test_the_policy_can_say_to_raise(place: str, tmp_path: Path) -> None:
    policy = Policy(read_timeout=5.0, write_timeout=0.4, threads="raise")
    async with open_store(place, tmp_path, policy=policy) as store:
        with store.faults.unavailable(), pytest.raises(StoreUnavailable):
            await store.thread("s-1").append(say("one"))
        assert not (await store.thread("s-1").load()).exists


async def test_without_spill_the_answer_still_gets_through_and_the_turn_is_dropped(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path, spill=False) as store:
        with store.faults.unavailable():
            assert (await store.thread("s-1").append(say("one"))).status == "dropped"
        assert not (await store.thread("s-1").load()).exists
    assert (store.counters.dropped, dict(store.counters.dropped_by_thread)) == (1, {"s-1": 1})


# --- replay -----------------------------------------------------------------------------


def replay_but(prefix: str) -> Any:
    """`Replayer.replay`, for all but threads whose ids begin so: what has them is away."""
    replay = Replayer.replay

    async def replay_others(replayer: Replayer, entity: Entity, deadline: float) -> None:
        if entity.id.startswith(prefix):
            raise StoreUnavailable("its node is away")
        await replay(replayer, entity, deadline)

    return replay_others


async def test_what_was_spilled_is_there_before_the_next_read_and_the_next_append(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as store:
        a, b = store.thread("a", user="u-1"), store.thread("b")
        with store.faults.unavailable():
            for n in range(3):
                await a.append(say(f"a{n}"), say(f"A{n}"))
                await b.append(say(f"b{n}"))
            assert (await store.health()).spill_depth == 6
        await answers(store)
        assert (await b.append(say("b3"))).version == 4
        assert texts(await a.load()) == ["a0", "A0", "a1", "A1", "a2", "A2"]
        assert texts(await b.load()) == ["b0", "b1", "b2", "b3"]
        assert (await store.health()).spill_depth == 0
        assert files(tmp_path) == []
        assert (await a.late(), await b.late()) == ([], [])
        assert (await store.threads(user="u-1").__anext__()).id == "a"
    assert (store.counters.replayed, store.counters.late) == (6, 0)


async def test_a_read_goes_on_without_own_turns_only_while_replicas_are_missing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(place, tmp_path) as store:
        thread, engine = store.thread("a"), store._layered.stacks[0].engine
        await thread.append(say("one"))
        ask, refusals = engine.execute, [StoreUnavailable("no writes")]

        async def refuse(ops: Sequence[Op], **hints: Any) -> list[Outcome]:
            if any(isinstance(op, Commit) for op in ops):
                raise refusals[-1]
            return await ask(ops, **hints)

        with monkeypatch.context() as patched:
            patched.setattr(engine, "execute", refuse)
            assert (await thread.append(say("two"))).status == "spilled"
            for another in (StoreUnavailable("no writes"), StoreFull("full"), DiskProblem("full")):
                refusals.append(another)
                with pytest.raises(StoreUnavailable):
                    await thread.load()
            refusals.append(TooFewReplicas("too few replicas"))
            await until(lambda: store.breaker == "closed")  # the background asks again
            assert texts(await thread.load()) == ["one"]
            assert (await thread.append(say("three"))).status == "spilled"
        assert await version_of(store, "a") == 3
        assert texts(await thread.load()) == ["one", "two", "three"]


async def test_it_is_replayed_in_the_background_too(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        with store.faults.unavailable():
            for n in range(40):
                await store.thread(f"s-{n % 20}").append(say(f"{n}"))
        await until(lambda: store.counters.replayed == 40)
        for n in range(20):
            assert texts(await other.thread(f"s-{n}").load()) == [f"{n}", f"{n + 20}"]


async def test_a_thread_that_waits_does_not_hold_up_the_others(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(place, tmp_path) as store:
        with monkeypatch.context() as patched:
            patched.setattr(Replayer, "replay", replay_but("waits"))
            with store.faults.unavailable():
                await store.thread("waits").append(say("one"))
            await answers(store)
            await store.thread("other").append(say("at once"))
            assert (await store.thread("other").load()).version == 1
            assert store.counters.replayed == 0


async def test_an_append_whose_reply_was_lost_is_stored_once(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store:
        thread = store.thread("s-1")
        with store.faults.fail_after(times=None):
            assert (await thread.append(say("one"))).status == "spilled"
        await answers(store)
        assert texts(await thread.load()) == ["one"]


async def test_it_is_found_though_the_store_has_forgotten_the_op(
    place: str, tmp_path: Path
) -> None:
    world = SteppableWorld()
    async with open_store(place, tmp_path, world=world) as store:
        async with stateward.open(place, world=world) as other:
            thread = store.thread("s-1")
            with store.faults.fail_after(times=None):
                assert (await thread.append(say("one"))).status == "spilled"
            for n in range(1100):
                await other.thread("s-1").append(say(f"{n}"))
                world.advance(1.0)
            await until(lambda: store.counters.replayed == 1)
            window = await other.thread("s-1").load()
        assert (window.version, texts(window).count("one")) == (1101, 1)


async def test_it_is_found_though_many_others_have_written_within_a_moment(tmp_path: Path) -> None:
    world = World()
    engine = create_engine(parse("memory://"), world)
    options: dict[str, Any] = {"policy": IMPATIENT, "spill": str(tmp_path / "spill")}
    async with FaultyStore(FaultyEngine(engine, world), world=world, **options) as store:
        thread = store.thread("s-1")
        with store.faults.fail_after(times=None):
            assert (await thread.append(say("one"))).status == "spilled"
            entity = Entity("default", "thread", "s-1")
            for n in range(OPS_MOST + 100):
                other = Append((encode(say(f"{n}"), "it"),))
                await engine.execute([Commit(entity, world.new_op(), (other,))])
        await answers(store)
        assert texts(await thread.load()).count("one") == 1


async def test_a_busy_thread_pool_of_the_application_holds_up_nothing(
    place: str, tmp_path: Path
) -> None:
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        busy = asyncio.create_task(asyncio.to_thread(free.wait))
        try:
            async with asyncio.timeout(30), open_store(place, tmp_path) as store:
                await store.thread("s-1").append(say("one"))
                with store.faults.unavailable():
                    assert (await store.thread("s-1").append(say("two"))).status == "spilled"
                await answers(store)
                assert texts(await store.thread("s-1").load()) == ["one", "two"]
        finally:
            free.set()
            await busy


async def test_an_error_that_nobody_expects_does_not_end_the_replay(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replay, failed = Replayer.replay, []

    async def replay_at_last(replayer: Replayer, entity: Entity, deadline: float) -> None:
        if not failed:
            failed.append(entity)
            raise RuntimeError("nobody expects this")
        await replay(replayer, entity, deadline)

    monkeypatch.setattr(Replayer, "replay", replay_at_last)
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            assert (await store.thread("s-1").append(say("one"))).status == "spilled"
        await until(lambda: store.counters.replayed == 1)
    assert "background_failed" in [record.message for record in caplog.records]


async def test_many_threads_that_cannot_be_stored_hold_up_no_other(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(place, tmp_path) as store:
        with monkeypatch.context() as patched:
            patched.setattr(Replayer, "replay", replay_but("stuck"))
            with store.faults.unavailable():
                for n in range(2 * TOGETHER):
                    assert (await store.thread(f"stuck-{n}").append(say("one"))).status == "spilled"
                assert (await store.thread("well").append(say("one"))).status == "spilled"
            await until(lambda: store.counters.replayed == 1)


class AwayNode(Passthrough):
    """An engine of several servers: the one with entities of this kind is away."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if any(isinstance(op, Commit | Fetch) and op.entity.kind == SPILL for op in ops):
            raise StoreUnavailable("its node is away")
        return await super().execute(ops, deadline=deadline)


async def test_a_thread_is_replayed_though_only_its_own_server_is_there(
    place: str, tmp_path: Path
) -> None:
    world = World()
    engine = FaultyEngine(AwayNode(create_engine(parse(place), world)), world)
    options: dict[str, Any] = {"policy": IMPATIENT, "spill": str(tmp_path / "spill")}
    async with FaultyStore(engine, world=world, **options) as store:
        thread = store.thread("s-1", user="u-1")
        await thread.append(say("one"))
        with store.faults.unavailable():
            assert (await thread.append(say("two"))).status == "spilled"
        await until(lambda: store.counters.replayed == 1)
        assert texts(await thread.load()) == ["one", "two"]
        assert await thread.late() == []


async def test_a_turn_that_arrived_with_its_names_in_another_order_is_not_refused(
    place: str, tmp_path: Path
) -> None:
    turn = {"role": "user", "content": "one"}
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        with store.faults.unavailable():
            assert (await store.thread("s-1").append(turn, key="k")).status == "spilled"
            assert (await store.thread("s-2").append(turn, key="k")).status == "spilled"
            await other.thread("s-1").append(dict(reversed(turn.items())), key="k")
            await other.thread("s-2").append(say("another"), key="k")
        await until(lambda: store.counters.replayed + store.counters.refused == 2)
        assert (store.counters.replayed, store.counters.refused) == (1, 1)
        assert texts(await other.thread("s-1").load()) == ["one"]


async def test_turns_that_come_after_newer_ones_are_marked_and_not_reordered(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        thread = store.thread("s-1")
        await thread.append(say("one"))
        with store.faults.unavailable():
            with correlate("request-7"):
                await thread.append(say("two"), say("two more"))
            await thread.append(say("three"))
            await other.thread("s-1").append(say("newer"))
        await answers(store)
        window = await thread.load()
        assert texts(window) == ["one", "newer", "two", "two more", "three"]
        late = await thread.late()
        assert [(turn.first, turn.last) for turn in late] == [(3, 4), (5, 5)]
        assert late[0].written_at <= late[1].written_at
    assert store.counters.late == 2
    said = [vars(r) for r in caplog.records if r.message == "memory_write_late"]
    assert [(r["first"], r["last"], r["correlation_id"]) for r in said] == [
        (3, 4, "request-7"),
        (5, 5, None),
    ]


async def test_what_was_deleted_meanwhile_stays_deleted(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        thread = store.thread("s-1")
        await thread.append(say("one"))
        with store.faults.unavailable():
            await thread.append(say("two"))
            await other.thread("s-1").delete()
        await answers(store)
        assert not (await thread.load()).exists
    assert (store.counters.erased, store.counters.replayed) == (1, 0)


async def test_what_is_erased_while_an_append_still_waits_stays_erased(
    place: str, tmp_path: Path
) -> None:
    # No breaker ends the waiting: it is to last longer than an erasure on a busy machine.
    policy = Policy(read_timeout=2.0, write_timeout=2.0, breaker_failures=1_000_000)
    async with open_store(place, tmp_path, policy=policy) as store, stateward.open(place) as other:
        with store.faults.unavailable() as outage:
            waits = asyncio.create_task(store.thread("s-1", user="u-1").append(say("one")))
            await until(lambda: outage.fired > 0)
            await other.user("u-1").erase()
            assert not waits.done(), "it was erased too late to prove anything"
            assert (await waits).status == "spilled"
        await until(lambda: store.counters.erased == 1)
        assert not (await other.thread("s-1", user="u-1").load()).exists


async def test_an_append_cancelled_while_it_is_kept_is_replayed_all_the_same(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            task = asyncio.create_task(store.thread("s-1").append(say("one")))
            await until(lambda: store.counters.spilled == 1)
            task.cancel()
            await asyncio.wait([task])
        await until(lambda: store.counters.replayed == 1)
        assert texts(await store.thread("s-1").load()) == ["one"]


@pytest.mark.parametrize("begun", [True, False])
async def test_an_erased_user_stays_erased(place: str, tmp_path: Path, begun: bool) -> None:
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        thread = store.thread("s-1", user="u-1")
        if begun:
            await thread.append(say("one"))
        with store.faults.unavailable():
            await thread.append(say("two"))
            await other.user("u-1").erase()
        await until(lambda: store.counters.erased == 1 and files(tmp_path) == [])
        assert not (await thread.load()).exists
        await thread.append(say("a new beginning"))
        assert texts(await thread.load()) == ["a new beginning"]


async def test_another_users_thread_is_refused_at_replay_and_said(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(place, tmp_path) as store, stateward.open(place) as other:
        with store.faults.unavailable():
            await store.thread("s-1", user="u-1").append(say("mine"))
            await other.thread("s-1", user="u-2").append(say("theirs"))
            head = (await other.thread("s-1", user="u-2").handle.fetch()).head
        await until(lambda: store.counters.refused == 1)
        assert texts(await other.thread("s-1", user="u-2").load()) == ["theirs"]
        assert (await other.thread("s-1", user="u-2").handle.fetch()).head == head
    assert "memory_write_discarded" in [record.message for record in caplog.records]


async def test_what_is_too_old_is_not_replayed(place: str, tmp_path: Path) -> None:
    world = SteppableWorld()
    async with open_store(place, tmp_path, world=world) as store:
        with store.faults.unavailable():
            await store.thread("s-1").append(say("old"))
            world.advance(hours=24, seconds=1)
        await answers(store)
        assert not (await store.thread("s-1").load()).exists
    assert (store.counters.expired, files(tmp_path)) == (1, [])


class WrongClock(World):
    """This machine's clock is an hour off."""

    def __init__(self, off: float) -> None:
        self._off = off

    def now(self) -> float:
        return super().now() + self._off


@pytest.mark.parametrize("off", [-3600.0, 3600.0])
async def test_a_wrong_clock_revives_nothing_and_loses_nothing(
    place: str, tmp_path: Path, off: float
) -> None:
    """The engine's clock is right; that of the replica that spills is not."""
    engine = stateward.testing.faults.FaultyEngine(create_engine(parse(place), World()), World())
    spill = Spill(str(tmp_path / "spill"))
    store = FaultyStore(
        engine, world=WrongClock(off), policy=IMPATIENT, spill=spill, identity=place
    )
    async with store, stateward.open(place) as other:
        deleted, kept = store.thread("deleted"), store.thread("kept")
        await deleted.append(say("one"))
        await other.thread("kept").append(say("before"))
        await other.thread("kept").delete()
        with store.faults.unavailable():
            await deleted.append(say("two"))
            await kept.append(say("after"))
            await other.thread("deleted").delete()
        await answers(store)
        assert not (await deleted.load()).exists
        assert texts(await kept.load()) == ["after"]
        assert await kept.late() == []


# --- limits -----------------------------------------------------------------------------


async def test_beyond_the_limit_turns_are_dropped_and_counted_by_thread(
    place: str, tmp_path: Path
) -> None:
    spill = Spill(str(tmp_path / "spill"), max_bytes=2000)
    async with open_store(place, tmp_path, spill=spill) as store:
        with store.faults.unavailable():
            said = [await store.thread("s-1").append(say("x" * 300)) for _ in range(8)]
            assert (
                sum(file.stat().st_size for file in files(tmp_path)) <= 2500
            )  # with the line that says of which store it is
        statuses = [answer.status for answer in said]
        kept = statuses.count("spilled")
        assert statuses == ["spilled"] * kept + ["dropped"] * (8 - kept)
        assert 3 <= kept <= 5
        assert await version_of(store, "s-1") == kept
    assert store.counters.dropped_by_thread == {"s-1": 8 - kept}


async def test_files_are_readable_by_their_owner_alone(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            await store.thread("s-1").append(say("one"))
            (file,) = files(tmp_path)
            assert file.stat().st_mode & 0o777 == 0o600
            assert file.parent.stat().st_mode & 0o777 == 0o700
            assert b"one" in file.read_bytes()


async def test_where_no_file_can_be_written_memory_serves_and_it_is_said_once(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spill").write_text("a file stands where the directory should")
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            for n in range(3):
                assert (await store.thread("s-1").append(say(f"{n}"))).status == "spilled"
            problem = (await store.health()).spill_problem
            assert problem is not None
            assert str(tmp_path / "spill") in problem
        await answers(store)
        assert texts(await store.thread("s-1").load()) == ["0", "1", "2"]
    said = [record.message for record in caplog.records if record.name == "stateward.spill"]
    assert said.count("spill_not_durable") == 1


async def test_when_the_directory_can_be_written_again_all_is_in_a_file(
    place: str, tmp_path: Path
) -> None:
    obstacle = tmp_path / "spill"
    obstacle.write_text("")
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            await store.thread("s-1").append(say("one"))
            obstacle.unlink()
            await store.thread("s-1").append(say("two"))
            (file,) = files(tmp_path)
            assert b"one" in file.read_bytes()
            assert (await store.health()).spill_problem is None


async def test_wrong_spills_are_refused() -> None:
    for wrong in (7, 1.5, object()):
        with pytest.raises(stateward.InvalidInput, match="spill"):
            stateward.open("memory://", spill=wrong)  # type: ignore[arg-type]
    for wrong_field in ({"path": ""}, {"max_bytes": 0}, {"max_age": 90_000.0}, {"max_age": 0}):
        with pytest.raises(stateward.InvalidInput, match=f"Spill.{next(iter(wrong_field))}"):
            Spill(**wrong_field)  # type: ignore[arg-type]
    with pytest.raises(stateward.InvalidInput, match="redact"):
        stateward.open("memory://", redact="all of it")  # type: ignore[arg-type]


# --- closing, and who comes next --------------------------------------------------------


async def test_closing_replays_what_waits(place: str, tmp_path: Path) -> None:
    store = open_store(place, tmp_path)
    with store.faults.unavailable():
        await store.thread("s-1").append(say("one"))
    await store.close()
    assert (store.counters.replayed, files(tmp_path)) == (1, [])


async def test_what_is_left_at_closing_is_adopted_by_the_next_start(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.layers.outage.suppression.CLOSING_SECONDS", 0.1)
    store = open_store(place, tmp_path)
    store.faults.unavailable()
    await store.thread("s-1").append(say("one"))
    await store.thread("s-1").append(say("two"))
    await store.close()
    assert len(files(tmp_path)) == 1
    async with stateward.open(place, spill=tmp_path / "spill") as again:
        assert texts(await again.thread("s-1").load()) == ["one", "two"]
        assert (again.counters.adopted, files(tmp_path)) == (2, [])


async def test_a_file_of_another_store_or_namespace_is_left_alone(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.layers.outage.suppression.CLOSING_SECONDS", 0.1)
    store = open_store(place, tmp_path)
    store.faults.unavailable()
    await store.thread("s-1").append(say("one"))
    await store.close()
    for url, namespace in ((f"{place}2", "default"), (place, "other")):
        async with stateward.open(url, namespace=namespace, spill=tmp_path / "spill") as stranger:
            assert not (await stranger.thread("s-1").load()).exists
    assert len(files(tmp_path)) == 1


async def test_a_living_process_keeps_its_file(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            await store.thread("s-1").append(say("one"))
            async with stateward.open(place, spill=tmp_path / "spill") as sibling:
                assert not (await sibling.thread("s-1").load()).exists
                assert sibling.counters.adopted == 0


async def test_memory_that_is_lost_at_closing_is_counted(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stateward.layers.outage.suppression.CLOSING_SECONDS", 0.1)
    store = open_store(place, tmp_path, spill=Spill())
    store.faults.unavailable()
    await store.thread("s-1").append(say("one"))
    await store.close()
    assert store.counters.dropped == 1
    assert "spill_left_behind" in [record.message for record in caplog.records]


# --- what is said, and what is not ------------------------------------------------------


async def test_a_suppressed_write_is_logged_with_thread_error_and_correlation(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_store(place, tmp_path) as store:
        with store.faults.unavailable(), correlate("request-7"):
            await store.thread("s-1").append(say("one"), say("two"))
    (said,) = [vars(r) for r in caplog.records if r.message == "memory_write_suppressed"]
    fields = ("thread_id", "error", "correlation_id", "status", "messages", "levelname")
    wanted = ["s-1", "StoreUnavailable", "request-7", "spilled", 2, "WARNING"]
    assert [said[field] for field in fields] == wanted


async def test_redact_runs_before_store_spill_and_log(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(message: dict[str, Any]) -> dict[str, Any]:
        return message | {"content": message["content"].replace("4111 1111", "…")}

    async with open_store(place, tmp_path, redact=redact) as store:
        thread = store.thread("s-1")
        given = say("card 4111 1111")
        await thread.append(given)
        with store.faults.unavailable():
            await thread.append(given)
            assert b"4111 1111" not in files(tmp_path)[0].read_bytes()
        await answers(store)
        assert texts(await thread.load()) == ["card …", "card …"]
    assert given == say("card 4111 1111")
    assert not [r for r in caplog.records if "4111 1111" in str(vars(r))]


async def test_a_redact_that_fails_or_gives_no_message_stores_nothing() -> None:
    def fails(message: dict[str, Any]) -> dict[str, Any]:
        raise LookupError("no rule for this")

    for redact, error in ((fails, LookupError), (lambda m: None, stateward.InvalidInput)):
        async with stateward.open("memory://", redact=redact) as store:  # type: ignore[arg-type]
            with pytest.raises(error):
                await store.thread("s-1").append(say("one"))
            assert not (await store.thread("s-1").load()).exists


async def test_nothing_is_written_while_all_is_well(place: str, tmp_path: Path) -> None:
    async with open_store(place, tmp_path) as store:
        for n in range(5):
            await store.thread("s-1").append(say(f"{n}"))
    assert files(tmp_path) == []


def test_a_store_used_by_one_event_loop_after_another_replays_in_the_second(
    place: str, tmp_path: Path
) -> None:
    store = open_store(place, tmp_path)
    outage = store.faults.unavailable()

    async def first() -> str:
        return (await store.thread("s-1").append(say("one"))).status

    async def second() -> list[str]:
        while store.breaker == "open":  # it may have opened in the first
            with suppress(StoreUnavailable):
                await store.thread("s-1").load()
        found = texts(await store.thread("s-1").load())
        await store.close()
        return found

    assert asyncio.run(first()) == "spilled"
    outage.clear()
    assert asyncio.run(second()) == ["one"]
