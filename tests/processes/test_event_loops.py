"""One store and several event loops: one after the other works, two at once is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Barrier, Event, Thread
from typing import Any

import pytest
import uvloop

import stateward
import stateward.sync

Loops = Callable[[], asyncio.AbstractEventLoop]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
LOOPS: dict[str, Loops] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """`asyncio.run`: a new event loop a call, closed at its end."""

    def run_once(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work)

    return run_once


class InThread:
    """Runs work on a loop of its own in another thread; keeps what came of it."""

    def __init__(self, run: Run, work: Coroutine[Any, Any, Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(run, work), daemon=True)
        self._thread.start()

    def _run(self, run: Run, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.result = run(work)
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive(), "a thread hangs"


def test_one_asyncio_run_a_call_works_every_time(run: Run, url: str) -> None:
    store = stateward.open(url)
    for number in range(100):
        appended = run(store.thread("t-1").append({"n": number}))
        assert appended.version == number + 1
    window = run(store.thread("t-1").load())
    assert window.messages == [{"n": number} for number in range(100)]
    run(store.close())


def test_concurrent_calls_in_each_of_many_loops_lose_nothing(run: Run, url: str) -> None:
    store = stateward.open(url)

    async def ten_at_once(round_: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for place in range(10):
                tasks.create_task(store.thread(f"t-{place}").append({"round": round_}))
                tasks.create_task(store.user("u-1").update(lambda v: {"n": v.get("n", 0) + 1}))

    for round_ in range(10):
        run(ten_at_once(round_))
    run(store.close())
    with stateward.sync.open(url) as after:
        assert after.user("u-1").get().value == {"n": 100}
        for place in range(10):
            messages = after.thread(f"t-{place}").load().messages
            assert messages == [{"round": round_} for round_ in range(10)]


def test_a_write_handed_over_completes_though_its_loop_has_ended(run: Run, url: str) -> None:
    store = stateward.open(url)

    async def leave_a_write_under_way() -> None:
        await store.thread("t-1").load()  # open here: the write is handed over at once
        write = asyncio.create_task(store.thread("t-1").append({"n": 1}, {"n": 2}))
        await asyncio.sleep(0)
        assert not write.done()

    for _ in range(20):
        run(leave_a_write_under_way())
    window = run(store.thread("t-1").load())
    run(store.close())
    assert [message["n"] for message in window.messages] == [1, 2] * 20


def test_a_loop_that_ended_while_the_store_was_opening_leaves_it_usable(run: Run, url: str) -> None:
    store = stateward.open(url)

    async def leave_while_opening() -> None:
        write = asyncio.create_task(store.thread("t-1").append({"n": 1}, {"n": 2}))
        await asyncio.sleep(0)
        assert not write.done()

    for _ in range(20):
        run(leave_while_opening())
    assert run(store.thread("t-1").load()).messages == []  # nothing had been handed over
    assert run(store.thread("t-2").append({"n": 3})).version == 1
    run(store.close())


def test_two_running_loops_at_once_are_refused_and_the_first_goes_on(run: Run, url: str) -> None:
    store = stateward.open(url)
    in_use, refused = Event(), Event()

    async def first() -> int:
        await store.thread("t-1").append({"n": 1})
        in_use.set()
        await asyncio.to_thread(refused.wait, 30)
        return (await store.thread("t-1").append({"n": 2})).version

    owner = InThread(run, first())
    assert in_use.wait(30)
    calls = [
        lambda: store.thread("t-1").load(),
        lambda: store.thread("t-1").append({"n": 3}),
        lambda: store.user("u-1").get(),
        store.health,
        store.close,
    ]
    errors = []
    for call in calls:
        other = InThread(run, call())
        other.join()
        errors.append(other.error if other.error is not None else other.result)
    refused.set()
    owner.join()
    assert owner.error is None
    assert owner.result == 2
    for error in errors:
        words = error.error if isinstance(error, stateward.Health) else f"{error!r}"
        assert "StoreMisused" in words
        assert "event loop" in words
    run(store.close())


def test_two_loops_that_begin_at_one_moment_do_not_share_the_store(run: Run, url: str) -> None:
    """One of them is first; the other is refused, whichever it is, and nothing hangs."""
    for round_ in range(20):
        store = stateward.open(url)
        together = Barrier(2)

        async def attempt(thread: stateward.state.threads.Thread, together: Barrier) -> Any:
            together.wait(30)
            try:
                return await thread.append({"n": 1})
            finally:
                await asyncio.to_thread(together.wait, 30)

        thread = store.thread(f"t-{round_}")
        loops = [InThread(run, attempt(thread, together)) for _ in range(2)]
        for loop in loops:
            loop.join()
        kinds = sorted(type(loop.error).__name__ for loop in loops)
        assert kinds == ["NoneType", "StoreMisused"]
        run(store.close())


def test_a_closed_store_refuses_and_closing_it_twice_is_fine(run: Run, url: str) -> None:
    store = stateward.open(url)

    async def use_and_close() -> None:
        async with store:
            await store.thread("t-1").append({"n": 1})
        await store.close()
        await store.close()
        for call in (store.thread("t-1").load, store.user("u-1").get, store.describe):
            with pytest.raises(stateward.StoreMisused, match=r"closed.*stateward\.open"):
                await call()
        assert "closed" in str((await store.health()).error)

    run(use_and_close())
    run(store.close())  # also from another loop
    with pytest.raises(stateward.StoreMisused, match="closed"):
        run(store.thread("t-1").append({"n": 2}))
    with stateward.sync.open(url) as after:
        assert after.thread("t-1").load().messages == [{"n": 1}]


def test_a_store_that_was_never_used_can_be_closed(run: Run, url: str) -> None:
    store = stateward.open(url)
    run(store.close())
    run(store.close())
    with pytest.raises(stateward.StoreMisused, match="closed"):
        run(store.user("u-1").get())


def test_a_closed_sync_store_refuses_and_closing_it_twice_is_fine(url: str) -> None:
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"n": 1})
    store.close()
    for call in (store.thread("t-1").load, store.user("u-1").get, store.describe):
        with pytest.raises(stateward.StoreMisused, match=r"closed.*stateward\.open"):
            call()
    unused = stateward.sync.open(url)
    unused.close()
    unused.close()
    with pytest.raises(stateward.StoreMisused, match="closed"):
        unused.user("u-1").get()


async def _changes(thread: stateward.Thread) -> int:
    return len([change async for change in thread.changes(follow=False)])


async def _loaded(thread: stateward.Thread) -> int:
    return len((await thread.load()).messages)


@pytest.mark.parametrize("read", [_changes, _loaded])
def test_others_run_between_the_pages_of_a_long_read(
    read: Callable[[stateward.Thread], Coroutine[Any, Any, int]], run: Run, url: str
) -> None:
    """Reads of SQLite run on the loop: whoever reads page after page must not keep it."""

    async def work() -> tuple[int, int]:
        async with stateward.open(url) as store:
            thread = store.thread("s-1")
            await thread.append(*({"n": number} for number in range(2_000)))
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            beside = asyncio.create_task(other())
            read_in_all = await read(thread)
            beside.cancel()
            return read_in_all, turns

    messages, turns = run(work())
    assert messages == 2_000
    assert turns >= 2_000 // 200 - 2  # it begins after the first page, and ends before the last
