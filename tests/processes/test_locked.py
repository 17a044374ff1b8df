"""Another process holds the file: writes wait, reads go on, and a deadline says what it was."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest

import stateward
import stateward.sync
from processes.children import Child
from processes.conftest import Start
from stateward import StoreUnavailable
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.engines.sqlite.writer import CHECKPOINT_AT_ONCE
from stateward.ops import Append, Commit, Entity
from stateward.world import World

SHORT = 0.4  # seconds: a write timeout that a test can wait for
PATIENT = stateward.Policy(read_timeout=60.0, write_timeout=60.0)  # for who must not give up
SLACK = 10.0  # seconds that a busy machine may add to a deadline: what hangs takes longer


@pytest.fixture
def filled(url: str) -> str:
    """The URL of a store with one thread and one document."""
    with stateward.sync.open(url) as store:
        store.thread("t-1").append({"n": 1}, {"n": 2})
        store.user("u-1").put({"n": 1})
    return url


@contextmanager
def held(start: Start, path: Path, lock: str = "write") -> Iterator[Child]:
    """Another process holds a lock of the file, and lets go at the end at the latest."""
    holder = start("holder", path, lock)
    holder.until_said("held")
    yield holder
    if holder.alive and "released" not in holder.lines:
        holder.tell("release")
        holder.finish()


def release_later(holder: Child, seconds: float) -> Thread:
    def release() -> None:
        time.sleep(seconds)
        holder.tell("release")

    thread = Thread(target=release)
    thread.start()
    return thread


# --- shorter than the deadline ----------------------------------------------------------


async def test_a_write_waits_for_another_process_and_succeeds(
    start: Start, path: Path, filled: str
) -> None:
    async with stateward.open(filled, policy=PATIENT) as store:
        with held(start, path) as holder:
            writes = [
                asyncio.create_task(store.thread("t-1").append({"n": 3}, {"n": 4})),
                asyncio.create_task(store.user("u-1").update(lambda v: {"n": v["n"] + 1})),
            ]
            # Reads are answered while the writes still wait.
            for _ in range(50):
                window = await store.thread("t-1").load()
                assert window.messages == [{"n": 1}, {"n": 2}]
                assert (await store.user("u-1").get()).value == {"n": 1}
                await asyncio.sleep(0.002)  # the writes have been handed over meanwhile
            assert not any(write.done() for write in writes)
            releasing = release_later(holder, 1.0)
            appended, updated = await asyncio.gather(*writes)
            releasing.join()
        assert (appended.status, appended.version) == ("stored", 4)
        assert updated.value == {"n": 2}


def test_a_blocking_write_waits_for_another_process_and_succeeds(
    start: Start, path: Path, filled: str
) -> None:
    answers: list[Any] = []
    with stateward.sync.open(filled, policy=PATIENT) as store, held(start, path) as holder:
        write = Thread(
            target=lambda: answers.append(store.thread("t-1").append({"n": 3}, {"n": 4}))
        )
        write.start()
        for _ in range(50):
            assert store.thread("t-1").load().messages == [{"n": 1}, {"n": 2}]
        assert write.is_alive()
        assert answers == []
        release_later(holder, 1.0).join()
        write.join(30)
        assert [(a.status, a.version) for a in answers] == [("stored", 4)]


# --- longer than the deadline -----------------------------------------------------------


async def in_the_end(call: Callable[[], Awaitable[Any]]) -> Any:
    """What it answers: with a short deadline, on a busy machine, perhaps not at the first try."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await call()
            except stateward.StoreUnavailable:
                pass


def check_cause(error: stateward.StoreUnavailable, path: Path) -> None:
    """It names the file and the reason."""
    assert str(path) in str(error), error
    assert "locked by another process" in str(error), error


async def test_a_lock_held_too_long_is_named_in_the_error(
    start: Start, path: Path, filled: str
) -> None:
    """With the deadlines as they come; both colours wait at the same time."""
    policy = stateward.Policy(threads="raise", breaker_failures=1_000)
    async with stateward.open(filled, policy=policy) as store:
        with stateward.sync.open(filled, policy=policy) as blocking, held(start, path):
            begun = time.monotonic()
            errors = await asyncio.gather(
                store.thread("t-1").append({"n": 3}, {"n": 3}),
                asyncio.to_thread(blocking.thread("t-1").append, {"n": 4}, {"n": 4}),
                return_exceptions=True,
            )
            took = time.monotonic() - begun
            assert (await store.thread("t-1").load()).version == 2
        # This waits behind a write that was given up; when it is through, all is known.
        await store.user("u-1").update(lambda value: {"n": value["n"] + 1})
        stored = [message["n"] for message in (await store.thread("t-1").load()).messages]
    for number, error in enumerate(errors, 3):
        assert isinstance(error, stateward.StoreUnavailable)
        assert stored.count(number) in ((0,) if error.applied == "no" else (0, 2))
        check_cause(error, path)
        assert isinstance(error.__cause__, apsw.BusyError)
    deadline = stateward.Policy().write_timeout
    assert took < deadline + SLACK, (
        f"a call has outlived its deadline of {deadline} s: {took:.1f} s"
    )


async def test_a_short_deadline_is_kept_and_is_honest_about_the_write(
    start: Start, path: Path, filled: str
) -> None:
    policy = stateward.Policy(write_timeout=SHORT, threads="raise")
    async with stateward.open(filled, policy=policy) as store:
        with held(start, path):
            begun = time.monotonic()
            with pytest.raises(stateward.StoreUnavailable) as caught:
                await store.thread("t-1").append({"n": 3}, {"n": 4})
            took = time.monotonic() - begun
            assert (await store.thread("t-1").load()).version == 2  # reads go on
        # This waits behind the write that was given up; when it is through, all is known.
        await in_the_end(lambda: store.user("u-1").update(lambda value: {"n": value["n"] + 1}))
        messages = (await store.thread("t-1").load()).messages
    stored = messages == [{"n": n} for n in (1, 2, 3, 4)]
    assert stored or messages == [{"n": 1}, {"n": 2}]
    assert not (stored and caught.value.applied == "no"), "it said that nothing was written"
    assert took < SHORT + SLACK, f"the call has outlived its deadline of {SHORT} s: {took:.1f} s"


def test_a_short_deadline_is_kept_and_is_honest_about_the_write_of_a_blocking_caller(
    start: Start, path: Path, filled: str
) -> None:
    policy = stateward.sync.Policy(write_timeout=SHORT, threads="raise")
    with stateward.sync.open(filled, policy=policy) as store:
        with held(start, path):
            begun = time.monotonic()
            with pytest.raises(stateward.StoreUnavailable) as caught:
                store.thread("t-1").append({"n": 3}, {"n": 4})
            took = time.monotonic() - begun
            assert store.thread("t-1").load().version == 2
        store.user("u-1").update(lambda value: {"n": value["n"] + 1})
        assert store.thread("t-1").load().messages == [{"n": 1}, {"n": 2}]
    assert caught.value.applied == "no"
    check_cause(caught.value, path)
    assert took < SHORT + SLACK, f"the call has outlived its deadline of {SHORT} s: {took:.1f} s"


async def test_a_short_deadline_also_says_that_the_file_was_locked(
    start: Start, path: Path, filled: str
) -> None:
    policy = stateward.Policy(write_timeout=SHORT, threads="raise")
    async with stateward.open(filled, policy=policy) as store:
        with held(start, path), pytest.raises(stateward.StoreUnavailable) as caught:
            await store.thread("t-1").append({"n": 3}, {"n": 4})
    check_cause(caught.value, path)


async def test_a_write_repeated_after_the_deadline_is_stored_once(
    start: Start, path: Path, filled: str
) -> None:
    """What the error advises for `unknown`: the same call again, with the same key."""
    policy = stateward.Policy(write_timeout=SHORT, threads="raise")
    async with stateward.open(filled, policy=policy) as store:
        thread = store.thread("t-1")
        with held(start, path), pytest.raises(stateward.StoreUnavailable):
            await thread.append({"n": 3}, {"n": 4}, key="turn-2")
        again = lambda: thread.append({"n": 3}, {"n": 4}, key="turn-2")  # noqa: E731
        assert (await in_the_end(again)).version == 4
        assert (await thread.load()).messages == [{"n": n} for n in (1, 2, 3, 4)]


async def test_a_stopped_holder_that_dies_lets_the_waiting_write_through(
    start: Start, path: Path, filled: str
) -> None:
    async with stateward.open(filled, policy=PATIENT) as store:
        with held(start, path) as holder:
            holder.signal(signal.SIGSTOP)
            write = asyncio.create_task(store.thread("t-1").append({"n": 3}, {"n": 4}))
            for _ in range(25):
                assert (await store.thread("t-1").load()).version == 2
                await asyncio.sleep(0.002)
            assert not write.done()
            await asyncio.to_thread(holder.kill)
            assert (await write).version == 4


# --- the loop ---------------------------------------------------------------------------


async def test_a_locked_file_never_blocks_the_event_loop(
    start: Start, path: Path, filled: str
) -> None:
    """The lock is let go by the loop itself, when it has done much else meanwhile."""
    async with stateward.open(filled, policy=PATIENT) as store:
        await store.thread("t-1").load()
        blocked_on: list[int] = []
        world = store._scope.world
        block = world.block

        def noticed(seconds: float) -> None:
            blocked_on.append(threading.get_ident())
            block(seconds)

        world.block = noticed  # type: ignore[method-assign]
        with held(start, path) as holder:
            write = asyncio.create_task(store.thread("t-1").append({"n": 3}, {"n": 4}))
            while len(blocked_on) < 20:  # so often has it looked whether the file is free
                await store.thread("t-1").load()
                assert not write.done()
                await asyncio.sleep(0.001)
            holder.tell("release")
        assert (await write).version == 4
    assert threading.get_ident() not in blocked_on


# --- checkpoints ------------------------------------------------------------------------


def grow_wal(store: Any) -> None:
    """Write until the log is so large that the writer itself copies it into the file."""
    body = "x" * 1_000_000
    for _ in range(CHECKPOINT_AT_ONCE * 4096 // 2_000_000 + 3):
        store.thread("large").append({"text": body}, {"text": body})


def test_a_checkpoint_under_way_elsewhere_does_not_fail_a_stored_write(
    start: Start, path: Path, filled: str
) -> None:
    """The commit was durable before; that the log could not be copied is nobody's failure."""
    with stateward.sync.open(filled, policy=PATIENT) as store:
        store.thread("t-1").load()  # opens the -shm file, in which the lock is
        with held(start, path, "checkpoint"):
            grow_wal(store)
            wal = store.describe().settings["wal_bytes"]
            assert wal > CHECKPOINT_AT_ONCE * 4096, "the log never grew: this proves nothing"
            for number in range(20):
                assert store.thread("t-1").append({"n": number}).status == "stored"
            assert path.stat().st_size < wal / 2, "it was copied: nothing was in the way"
        # When that is over, the next writes copy what has gathered.
        for number in range(20, 200):
            store.thread("t-1").append({"n": number})
            if path.stat().st_size > wal / 2:
                break
        assert path.stat().st_size > wal / 2, "the log is never copied again"
        assert store.thread("t-1").load().version == 2 + number + 1


# --- longer, while others are served ------------------------------------------------------


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_a_failure_says_if_the_file_has_served_others(
    path: Path, filled: str, colour: str
) -> None:
    async def call(work: Any, *args: Any) -> None:
        await (work(*args) if colour == "async" else to_thread(work, *args))

    async def failure() -> StoreUnavailable:
        with pytest.raises(StoreUnavailable) as caught:
            await (
                engine.execute([turn]) if colour == "async" else to_thread(engine.execute, [turn])
            )
        return caught.value

    make: Any = create_engine if colour == "async" else create_sync_engine
    engine = make(parse(filled), World())
    await call(engine.open)
    turn = Commit(Entity("", "thread", "t-1"), "op-1", (Append(("{}",)),))
    others = apsw.Connection(str(path))
    others.execute("BEGIN IMMEDIATE")
    assert [(await failure()).is_busy for _ in range(2)] == [False, False]
    others.execute("CREATE TABLE another (a); COMMIT; BEGIN IMMEDIATE")
    assert [(await failure()).is_busy for _ in range(2)] == [True, False]
    others.execute("ROLLBACK")
    others.close()
    await call(engine.close)
