"""Blocking code: the same promises, kept by a thread beside the callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateward
from stateward import StoreUnavailable, sync
from stateward.sync.testing.faults import FaultyStore, open_faulty
from stateward.world import World

IMPATIENT = sync.Policy(read_timeout=0.4, write_timeout=0.4, breaker_failures=1_000_000)


def say(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(window: sync.Window) -> list[str]:
    return [message["content"] for message in window.messages]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "what the test waits for does not happen"
        time.sleep(0.005)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def open_store(place: str, tmp_path: Path, **options: Any) -> FaultyStore:
    chosen: dict[str, Any] = {"policy": IMPATIENT, "spill": str(tmp_path / "spill")} | options
    return open_faulty(place, identity=place, **chosen)


def test_a_plain_append_is_spilled_and_replayed_before_the_next_read(
    place: str, tmp_path: Path
) -> None:
    with open_store(place, tmp_path) as store:
        thread = store.thread("s-1", user="u-1")
        thread.append(say("one"))
        with store.faults.unavailable():
            assert thread.append(say("two"), key="k").status == "spilled"
            with pytest.raises(StoreUnavailable):
                thread.append(say("three"), expect=1)
            with pytest.raises(StoreUnavailable):
                thread.load()
        assert texts(thread.load()) == ["one", "two"]
        assert thread.append(say("two"), key="k").status == "duplicate"
    assert list((tmp_path / "spill").glob("*.spill")) == []


def test_it_is_replayed_in_the_background_and_late_turns_are_marked(
    place: str, tmp_path: Path
) -> None:
    with open_store(place, tmp_path) as store, sync.open(place) as other:
        with store.faults.unavailable():
            store.thread("s-1").append(say("two"))
            other.thread("s-1").append(say("newer"))
        wait_until(lambda: store.counters.replayed == 1)
        assert texts(other.thread("s-1").load()) == ["newer", "two"]
        assert [(turn.first, turn.last) for turn in other.thread("s-1").late()] == [(2, 2)]


def test_many_threads_spill_at_once_and_nothing_is_lost(place: str, tmp_path: Path) -> None:
    with open_store(place, tmp_path) as store:
        with store.faults.unavailable():
            callers = [
                threading.Thread(
                    target=lambda n=n: [
                        store.thread(f"s-{n}").append(say(f"{turn}")) for turn in range(5)
                    ]
                )
                for n in range(10)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            assert store.health().spill_depth == store.counters.spilled == 50
        found = [texts(store.thread(f"s-{n}").load()) for n in range(10)]
    assert found == [[f"{turn}" for turn in range(5)]] * 10


def test_closing_replays_and_ends_its_thread(place: str, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = open_store(place, tmp_path)
    with store.faults.unavailable():
        store.thread("s-1").append(say("one"))
    store.close()
    assert store.counters.replayed == 1
    for thread in set(threading.enumerate()) - before:
        thread.join(30)  # one that has done its work may not have ended yet
    assert set(threading.enumerate()) <= before


def test_an_erased_user_stays_erased(place: str, tmp_path: Path) -> None:
    with open_store(place, tmp_path) as store, sync.open(place) as other:
        with store.faults.unavailable():
            store.thread("s-1", user="u-1").append(say("one"))
            other.user("u-1").erase()
        assert not store.thread("s-1", user="u-1").load().exists
    assert store.counters.erased == 1


def test_the_correlation_id_is_that_of_the_thread(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(place, tmp_path) as store, store.faults.unavailable():
        with stateward.correlate("outer"), stateward.correlate("request-7"):
            assert stateward.correlation_id() == "request-7"
            store.thread("s-1").append(say("one"))
        assert stateward.correlation_id() is None
    (said,) = [vars(r) for r in caplog.records if r.message == "memory_write_suppressed"]
    assert said["correlation_id"] == "request-7"


def test_an_error_that_nobody_expects_does_not_end_what_goes_on_beside() -> None:
    failed, done = [], threading.Event()

    def step() -> float | None:
        if not failed:
            failed.append(1)
            raise RuntimeError("nobody expects this")
        done.set()
        return None

    ticker = World().ticker(step, "test")
    assert done.wait(30)
    ticker.stop()
