"""A lease ends, and the code that holds it is told when it asks: blocking code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import stateward.sync
from coordination.loops import while_the_machine_runs
from stateward import LeaseHeld, LeaseLost, Policy, StoreUnavailable
from stateward.engines.memory.model import Model
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.store import Store
from stateward.sync.testing.faults import FaultyStore, open_faulty
from stateward.testing.clock import SteppableWorld

SHORT = 0.3  # a ttl that is over soon
LONG = 600.0  # a ttl that nobody could wait for


def faulty(url: str) -> FaultyStore:
    """Its outages end when the test says so: no breaker goes on refusing, no deadline is short."""
    patient = Policy(read_timeout=1.0, write_timeout=1.0, breaker_failures=1_000_000)
    return open_faulty(url, policy=patient)


def until(happened: Callable[[], bool]) -> None:
    """Wait until it has happened."""
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def is_lost(lease: Any) -> bool:
    try:
        lease.check()
    except LeaseLost:
        return True
    return False


def elsewhere(work: Callable[..., Any], *args: Any) -> Any:
    """Do it on another thread: this one holds a lease, and is told when that is lost."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *args).result()


def is_free(store: Store, name: str = "it") -> bool:
    try:
        with store.lock(name, wait=0):
            return True
    except LeaseHeld:
        return False


def calls(store: Store) -> list[Callable[[], Any]]:
    """Some of everything a store can be asked."""
    return [
        lambda: store.thread("t").load(),
        lambda: store.thread("t").append({"n": 1}),
        lambda: store.user("u").get(),
        lambda: store.user("u").put({"n": 1}),
        lambda: store.context(user="u", thread="t"),
        lambda: list(store.workflows()),
        lambda: store.journal("j").append({"n": 1}),
        lambda: store.once("task", len, "x"),
        lambda: store.workflow("w", kind="k").__enter__(),
        lambda: store.lock("other", wait=0).__enter__(),
    ]


# --- loss -------------------------------------------------------------------------------


def test_a_lost_lease_is_raised_at_its_check_and_at_every_call(url: str) -> None:
    with faulty(url) as store, stateward.sync.open(url) as other:
        with pytest.raises(LeaseLost), store.lock("it", ttl=SHORT) as lease:
            with store.faults.unavailable() as outage:
                until(lambda: is_lost(lease))
                assert outage.fired
            for call in calls(store):
                with pytest.raises(LeaseLost):
                    call()
                # Leaving the block as if nothing had happened is not possible either.
        with other.lock("it", wait=60) as successor:
            assert successor.token > lease.token
        assert not other.thread("t").load().exists
        assert store.thread("t").append({"n": 1}).version == 1  # outside all is well


def test_a_lease_that_was_taken_over_is_noticed_at_the_next_renewal() -> None:
    world, model = SteppableWorld(), Model()
    ttl = 1.5
    with (
        Store(MemoryEngine(model, world), world=world) as store,
        Store(MemoryEngine(model, world), world=world) as other,
        pytest.raises(LeaseLost),
        store.lock("it", ttl=ttl) as lease,
    ):
        lease.check()
        world.advance(ttl)
        elsewhere(other.lock("it", ttl=LONG, wait=0).__enter__)
        until(lambda: is_lost(lease))


def test_other_threads_are_not_told_of_a_lease_they_do_not_hold(url: str) -> None:
    with faulty(url) as store:
        lost, done = threading.Event(), threading.Event()
        raised: list[type[BaseException]] = []

        def hold() -> None:
            try:
                with store.lock("it", ttl=SHORT) as lease:
                    with store.faults.unavailable():
                        until(lambda: is_lost(lease))
                    lost.set()
                    done.wait(60)
                    store.thread("t").load()
            except LeaseLost as error:
                raised.append(type(error))

        holder = threading.Thread(target=hold)
        holder.start()
        assert lost.wait(60)
        assert not store.thread("t").load().exists
        done.set()
        holder.join()
        assert raised == [LeaseLost]


def test_what_is_held_inside_a_lost_lease_is_given_back_at_once(url: str) -> None:
    with faulty(url) as store, stateward.sync.open(url) as other:
        with (
            pytest.raises(LeaseLost),
            store.lock("outer", ttl=SHORT) as outer,
            store.lock("inner", ttl=LONG),
        ):
            with store.faults.unavailable():
                until(lambda: is_lost(outer))
            with pytest.raises(LeaseLost):
                store.thread("t").load()
        assert is_free(other, "inner")


def test_a_superseded_holder_cannot_write(url: str) -> None:
    with faulty(url) as store, stateward.sync.open(url) as other:
        thread = store.thread("t")

        def write_late(stale: Any) -> None:
            """Another thread that was given the lease, and does not check it."""
            with pytest.raises(LeaseLost):
                thread.append({"by": "stale"}, fence=stale)

        with pytest.raises(LeaseLost), thread.lead(ttl=SHORT) as lease:
            with store.faults.unavailable():
                elsewhere(succeed, other)
            elsewhere(write_late, lease)
            thread.append({"by": "stale"}, fence=lease)
        assert other.thread("t").load().messages == [{"by": "successor"}]


def succeed(other: Store) -> None:
    with other.thread("t").lead(wait=60) as lease:
        other.thread("t").append({"by": "successor"}, fence=lease)


def test_a_task_whose_lease_is_lost_is_left_to_others(url: str) -> None:
    with faulty(url) as store, stateward.sync.open(url) as other:
        ran: list[str] = []

        def slow() -> str:
            ran.append("first")
            with store.faults.unavailable():
                assert elsewhere(take_over) == "second"
            return "first"

        def take_over() -> Any:
            return other.once("it", fast, wait=60)

        def fast() -> str:
            ran.append("second")
            return "second"

        assert store.once("it", slow, ttl=SHORT) == "second"  # what counts is what is recorded
        assert ran == ["first", "second"]


def test_a_workflow_whose_lease_is_lost_stays_active(url: str) -> None:
    with faulty(url) as store, stateward.sync.open(url) as other:
        made: list[str] = []
        with pytest.raises(LeaseLost), store.workflow("w", kind="k", ttl=SHORT) as run:
            run.step("one", made.append, "one")
            with store.faults.unavailable():
                until(lambda: is_lost(run._drive.held))
            for _ in range(2):
                with pytest.raises(LeaseLost):
                    run.step("two", made.append, "late")
        with other.workflow("w", wait=60) as run:
            run.step("one", made.append, "one again")
            run.step("two", made.append, "two")
        assert made == ["one", "two"]


# --- keeping ----------------------------------------------------------------------------


@while_the_machine_runs
def test_a_busy_thread_keeps_its_lease(url: str) -> None:
    with (
        stateward.sync.open(url) as store,
        stateward.sync.open(url) as other,
        store.lock("it", ttl=0.7) as lease,
    ):
        time.sleep(1.8)  # nobody asks whether a thread makes progress, only whether it lives
        lease.check()
        assert not elsewhere(is_free, other)


def test_the_lease_of_a_thread_that_ended_is_not_renewed(url: str) -> None:
    with stateward.sync.open(url) as store, stateward.sync.open(url) as other:
        tokens: list[int] = []

        def enter_and_die() -> None:
            tokens.append(store.lock("it", ttl=SHORT).__enter__().token)

        thread = threading.Thread(target=enter_and_die)
        thread.start()
        thread.join()
        with other.lock("it", wait=60) as lease:
            assert lease.token > tokens[0]


@while_the_machine_runs
def test_an_outage_shorter_than_the_ttl_does_not_lose_the_lease(url: str) -> None:
    ttl = 2.0
    with (
        faulty(url) as store,
        stateward.sync.open(url) as other,
        store.lock("it", ttl=ttl) as lease,
    ):
        begun = time.monotonic()
        with store.faults.unavailable() as outage:
            until(lambda: outage.fired >= 2)
        until(lambda: time.monotonic() > begun + 1.1 * ttl)
        lease.check()
        assert not is_free(other)


def test_a_block_that_fails_gives_its_lease_back(url: str) -> None:
    with stateward.sync.open(url) as store, stateward.sync.open(url) as other:
        for error in (ZeroDivisionError, KeyboardInterrupt, SystemExit):
            with pytest.raises(error), store.lock("it", ttl=LONG):
                raise error
            assert is_free(other)
        for error in (KeyboardInterrupt, StoreUnavailable):

            def fail(error: type[BaseException] = error) -> None:
                raise error("the process ends")

            with pytest.raises(error):
                store.once("task", fail, ttl=LONG)
            with pytest.raises(error), store.workflow("w", kind="k", ttl=LONG) as run:
                run.step("one", fail)
        assert other.once("task", lambda: 4, wait=0) == 4
        with other.workflow("w", wait=0) as run:
            assert run.step("one", len, "four") == 4


# --- closing ----------------------------------------------------------------------------


def test_closing_gives_every_lease_back_at_once_and_tells_the_holders(url: str) -> None:
    store = stateward.sync.open(url)
    entered, closed = threading.Barrier(5), threading.Event()
    errors: list[type[BaseException]] = []

    def hold(lock: Any) -> None:
        try:
            with lock as lease:
                entered.wait(60)
                closed.wait(60)
                lease.check()
        except LeaseLost as error:
            errors.append(type(error))

    def drive() -> None:
        try:
            with store.workflow("w", kind="k", ttl=LONG) as run:
                run.step("one", len, "")
                entered.wait(60)
                closed.wait(60)
                run.step("two", len, "")
        except LeaseLost as error:
            errors.append(type(error))

    locks = [
        store.lock("a", ttl=LONG),
        store.elect("b", ttl=LONG),
        store.thread("c").lead(ttl=LONG),
    ]
    threads = [threading.Thread(target=hold, args=(lock,)) for lock in locks]
    threads.append(threading.Thread(target=drive))
    for thread in threads:
        thread.start()
    entered.wait(60)
    with stateward.sync.open(url) as other:
        assert not is_free(other, "a")
        store.close()
        with other.lock("a", wait=0), other.elect("b", wait=0), other.thread("c").lead(wait=0):
            pass
        driven: list[str] = []
        other.work(
            {"k": lambda run: driven.append(run.id)}, poll=0.01, until=lambda: driven == ["w"]
        )
        closed.set()
        for thread in threads:
            thread.join()
        assert errors == [LeaseLost] * 4


def test_closing_works_though_the_store_cannot_be_told(url: str) -> None:
    store = open_faulty(url)
    with pytest.raises(LeaseLost), store.lock("it", ttl=2.0):
        with store.faults.unavailable() as outage:
            store.close()
        assert outage.fired
    with stateward.sync.open(url) as other:
        until(lambda: is_free(other))  # its ttl does it
