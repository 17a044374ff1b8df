"""An exception from a signal handler, at every point where there can be one, wedges nothing."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

import stateward
from stateward import sync
from stateward.engines.memory.model import Model
from stateward.engines.redis.client.pool import MOST
from stateward.engines.registry import parse
from stateward.engines.sqlite.checkpoint import PAGES, Checkpoints
from stateward.engines.sqlite.settings import parse_file
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Commit,
    Delete,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fetch,
    Head,
    Log,
    Op,
    Outcome,
    Put,
    Release,
    Replace,
    Restore,
    SetHead,
    Trim,
    Write,
)
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.engines.passthrough import Passthrough
from stateward.sync.layers.coalescer import Coalescer
from stateward.world import World

POLICY = stateward.Policy(threads="raise", write_timeout=20.0, read_timeout=20.0)
PATIENCE = 20.0

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """A connection that was being made, and that nobody knows of yet, is closed by the collector.

    That is no fault here, so it is not told.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class TimeLimit(Exception):
    """What a worker's soft time limit raises."""


class Interrupt:
    """Raises at the `number`th point at which Python lets signal handlers run.

    Those are the entry of a function and the return from one written in C.
    """

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        # Nothing can guard the point before the first line of what ends a `with`.
        if event == "call" and frame.f_code.co_name == "__exit__":
            return
        if event in ("call", "c_return"):
            self._left -= 1
            if self._left == 0:
                raise TimeLimit

    def during(self, work: Callable[[], object]) -> bool:
        """Whether the work was interrupted."""
        try:
            sys.setprofile(self)
            try:
                work()
            finally:
                sys.setprofile(None)
        except TimeLimit:
            return True
        except RuntimeError as error:
            if not isinstance(error.__context__, TimeLimit):
                raise
            return (
                True  # amid a lock of the standard library, which complains of it in its own words
            )
        return False


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_wherever_a_write_is_interrupted_all_go_on(url: str) -> None:
    with (
        sync.open(url, spill=False, policy=POLICY) as store,
        sync.open(url, spill=False, policy=POLICY) as other,
    ):
        thread = store.thread("interrupted")
        thread.append({"n": 0})
        for number in count(1):
            interrupted = Interrupt(number).during(lambda: thread.append({"n": number}))  # noqa: B023
            # Another's write comes first: what was left open would belong to an older moment.
            assert other.thread("other").append({"n": number}).status == "stored"
            assert thread.append({"n": -number}).status == "stored"
            if not interrupted:
                break
        numbers = [message["n"] for message in thread.load().messages]
        assert len(numbers) == len(set(numbers))


def test_wherever_a_read_is_interrupted_all_go_on(url: str) -> None:
    with (
        sync.open(url, spill=False, policy=POLICY) as store,
        sync.open(url, spill=False, policy=POLICY) as other,
    ):
        thread = store.thread("read")
        for number in count(1):
            thread.append({"n": number})
            interrupted = Interrupt(number).during(lambda: thread.load(last=3))
            other.thread("read").append({"n": -number})
            thread.append({"n": 0})
            assert len(thread.load().messages) == 3 * number
            if not interrupted:
                break


WRITES: list[tuple[Write, ...]] = [
    (Append(("3", "4", "5"), key="new"),),
    (Append(("3",), key="new"), Put("doc", "2"), Put("other", "1"), SetHead(status="s")),
    (Delete("doc"), Acquire("n", 60.0)),
    (Trim(1),),
    (Replace({1: None, 2: "22"}), Append(("3",))),
    (Drop(),),
    (Restore(Head(version=9, stamp="z"), (Entry(9, 1.0, "9", "z", "k9", 1),), continued=True),),
]


@pytest.mark.parametrize("writes", WRITES, ids=lambda writes: type(writes[0]).__name__)
def test_wherever_a_commit_in_memory_is_interrupted_it_is_all_there_or_not_at_all(
    writes: tuple[Write, ...],
) -> None:
    it = Entity("n", "thread", "t")
    restores = isinstance(writes[0], Restore)
    for number in count(1):
        model = Model()
        model.execute([Commit(it, "a", (Append(("1", "2"), key="k"), Put("doc", "1")))], 1.0)

        def everything(model: Model = model) -> list[Outcome]:
            cell = model.copy()
            known = Commit(it, "probe", (Append(("no",), key="new"),), (Absent(),))
            fetch = Fetch(it, log=Log(whole=True), all_documents=True)
            return cell.execute([fetch, known], 3.0)

        before = everything()
        commit = Commit(it, "b", writes)
        interrupted = Interrupt(number).during(partial(model.execute, [commit], 2.0))
        then = everything()
        (again,) = model.execute([commit], 2.0)
        assert isinstance(again, Applied if then == before or restores else Duplicate), number
        after = everything()
        assert then in (before, after), number
        if not interrupted:
            return


class Together(MemoryEngine):
    """Holds the first batch until the test lets it go."""

    def __init__(self) -> None:
        super().__init__(Model(), World())
        self.begun = threading.Event()
        self.go = threading.Event()

    def execute(self, ops: Any, *, deadline: float | None = None) -> list[Outcome]:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(PATIENCE)
        return super().execute(ops, deadline=deadline)


def append(thread: str) -> list[Op]:
    return [Commit(Entity("n", "thread", thread), f"op-{thread}", (Append(("1",)),))]


def leader_interrupted(number: int, pool: ThreadPoolExecutor) -> bool:
    """This thread leads a batch of three, and is interrupted or not."""
    engine = Together()
    coalescer = Coalescer(engine)
    queue = partial(getattr, coalescer._writes, "_queue")
    first = pool.submit(coalescer.execute, append("first"), None)
    assert engine.begun.wait(PATIENCE)
    gone = threading.Event()

    def follow() -> list[Future[list[Outcome]]]:
        until(lambda: bool(queue()) or gone.is_set())
        followers = [pool.submit(coalescer.execute, append(name), None) for name in "ab"]
        until(lambda: len(queue()) == 3 or gone.is_set())
        engine.go.set()
        return followers

    following = pool.submit(follow)
    interrupted = Interrupt(number).during(lambda: coalescer.execute(append("leader"), None))
    gone.set()
    for future in (first, *following.result(PATIENCE)):
        (outcome,) = future.result(PATIENCE)
        assert isinstance(outcome, Applied | Duplicate)
    (outcome,) = coalescer.execute(append("after"), None)
    assert isinstance(outcome, Applied)
    coalescer.drain()
    return interrupted


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.0005)


def test_wherever_the_leader_is_interrupted_those_with_it_are_answered() -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in count(1):
            if not leader_interrupted(number, pool):
                break


def test_wherever_its_start_is_interrupted_the_log_is_copied_all_the_same(sqlite: str) -> None:
    """A thread whose start was taken back would fail with a KeyError, and never be started anew."""
    file = parse_file(parse(sqlite), World())
    file.open()
    for number in count(1):
        checkpoints = Checkpoints(file)
        interrupted = Interrupt(number).during(partial(checkpoints.consider, PAGES))
        checkpoints.consider(3 * PAGES)
        until(checkpoints.end_is_due)
        checkpoints.close()
        if not interrupted:
            break


def test_real_signals_wedge_nothing(sqlite: str) -> None:
    def raise_time_limit(*_: object) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, raise_time_limit)
    try:
        with sync.open(sqlite, spill=False, policy=POLICY) as store:
            thread = store.thread("signals")
            for number in range(200):
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 0.00001)
                        while True:
                            thread.append({"n": number})
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except TimeLimit:
                    assert thread.append({"n": -number}).status == "stored"
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.verify
def test_however_often_a_caller_is_interrupted_connections_are_left_for_others(redis: str) -> None:
    """At every point, more often than there may be connections."""
    with sync.open(redis, spill=False, policy=POLICY) as store:
        thread = store.thread("pool")
        thread.append({"n": 0})
        for number in count(1):
            several = [Interrupt(number).during(thread.load) for _ in range(MOST + 1)]
            assert thread.load().messages == [{"n": 0}]
            if not any(several):
                break


def is_claim(op: Op) -> bool:
    return isinstance(op, Commit) and any(isinstance(write, Acquire) for write in op.writes)


def gives_back(op: Op) -> bool:
    return isinstance(op, Commit) and any(isinstance(write, Release) for write in op.writes)


class Ended(Passthrough):
    """An engine whose caller is interrupted in its first claim: before it, or when it was made.

    Or in the first that is as `chosen` says.
    """

    def __init__(
        self, engine: MemoryEngine, *, before: bool, chosen: Callable[[Op], bool] = is_claim
    ) -> None:
        super().__init__(engine)
        self._before = before
        self._chosen = chosen
        self.interrupted = False

    def execute(self, ops: Any, *, deadline: float | None = None) -> list[Outcome]:
        claims = any(map(self._chosen, ops))
        due = claims and not self.interrupted
        self.interrupted |= claims
        if due and self._before:
            raise TimeLimit
        outcomes = super().execute(ops, deadline=deadline)
        if due:
            raise TimeLimit
        return outcomes


def lead(store: sync.Store) -> None:
    with store.thread("t").lead(wait=0):
        pass


def drive(store: sync.Store) -> None:
    with store.workflow("w", kind="k", wait=0) as run:
        run.step("s", lambda: 1)


def act(store: sync.Store) -> None:
    store.thread("t").effect("c", lambda: 1, wait=0)


CLAIMS: dict[str, Callable[[sync.Store], object]] = {
    "lead": lead,
    "once": lambda store: store.once("k", lambda: 1, wait=0),
    "workflow": drive,
}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_was_granted_to_an_interrupted_caller_is_given_back(claim: str, before: bool) -> None:
    model = Model()
    engine = Ended(MemoryEngine(model, World()), before=before)
    with (
        sync.Store(engine, spill=False, policy=POLICY) as store,
        sync.Store(MemoryEngine(model, World()), spill=False, policy=POLICY) as other,
    ):
        store.thread("t").append({"n": 0})
        with pytest.raises(TimeLimit):
            CLAIMS[claim](store)
        assert engine.interrupted
        CLAIMS[claim](other)  # at once: nobody holds it
        CLAIMS[claim](store)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("claim", [*CLAIMS, "effect"])
def test_a_caller_that_is_interrupted_as_it_gives_back_keeps_nothing(
    claim: str, before: bool
) -> None:
    model = Model()
    calls = CLAIMS | {"effect": act}
    engine = Ended(MemoryEngine(model, World()), before=before, chosen=gives_back)
    with (
        sync.Store(engine, spill=False, policy=POLICY) as store,
        sync.Store(MemoryEngine(model, World()), spill=False, policy=POLICY) as other,
    ):
        store.thread("t").append({"n": 0})
        with pytest.raises(TimeLimit):
            calls[claim](store)
        assert engine.interrupted
        with suppress(stateward.EffectUnknown):
            calls[claim](other)  # at once: nobody holds it


class Late(Passthrough):
    """An engine whose first claim is interrupted on its way, and arrives when it is told to."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine)
        self.on_its_way: Any = None

    def execute(self, ops: Any, *, deadline: float | None = None) -> list[Outcome]:
        if self.on_its_way is None and any(map(is_claim, ops)):
            self.on_its_way = ops
            raise TimeLimit
        return super().execute(ops, deadline=deadline)

    def arrive(self) -> None:
        super().execute(self.on_its_way)


def test_what_was_refused_is_not_granted_to_a_caller_that_is_gone_when_it_arrives_late() -> None:
    model = Model()
    engine = Late(MemoryEngine(model, World()))
    with (
        sync.Store(engine, spill=False, policy=POLICY) as store,
        sync.Store(MemoryEngine(model, World()), spill=False, policy=POLICY) as other,
    ):
        with other.lock("l", wait=0), pytest.raises(TimeLimit):
            hold_lock(store)
        engine.arrive()  # when the lock is free
        hold_lock(other)
        hold_lock(store)


# --- every public write ---------------------------------------------------------------------


def hold_lock(store: sync.Store) -> None:
    with store.lock("l", wait=0):
        pass


def signal_workflow(store: sync.Store) -> None:
    store.workflow("signalled", kind="k").signal("go", {"n": 1})


def fork(store: sync.Store) -> None:
    store.thread("t").fork(to=f"f-{time.monotonic_ns()}")


PUBLIC: dict[str, Callable[[sync.Store], object]] = {
    "append": lambda store: store.thread("t").append({"n": 1}),
    "append with a key": lambda store: store.thread("t").append({"n": 1}, key="k"),
    "edit": lambda store: store.thread("t").edit({1: {"n": -1}}),
    "truncate": lambda store: store.thread("t").truncate(after=1),
    "replace": lambda store: store.thread("t").replace([{"n": 1}]),
    "describe": lambda store: store.thread("t").describe(title="x"),
    "retain": lambda store: store.thread("t").retain(86_400.0),
    "pin": lambda store: store.thread("t").pin(),
    "fork": fork,
    "delete": lambda store: store.thread("t").delete(),
    "variables": lambda store: store.thread("t").vars.update(lambda value: {**value, "n": 1}),
    "put": lambda store: store.user("u").put({"n": 1}),
    "update": lambda store: store.user("u").update(lambda value: {**value, "n": 1}),
    "erase": lambda store: store.user("u").erase(),
    "lock": hold_lock,
    "lead": lead,
    "once": lambda store: store.once(f"o-{time.monotonic_ns()}", lambda: 1, wait=0),
    "workflow": drive,
    "signal": signal_workflow,
    "journal": lambda store: store.journal("j").append({"n": 1}),
    "sweep": lambda store: store.sweep(),
}


class Points(Interrupt):
    """Counts the points at which a call could be interrupted."""

    def __init__(self) -> None:
        super().__init__(-1)

    def of(self, work: Callable[[], object]) -> int:
        assert not self.during(work)
        return -1 - self._left


def interrupted_everywhere(url: str, name: str, samples: int | None) -> None:
    """Whatever it was doing, the store and all others go on, and nothing is held."""
    call, drawn = PUBLIC[name], random.Random(name)
    with (
        sync.open(url, spill=False, policy=POLICY) as store,
        sync.open(url, spill=False, policy=POLICY) as other,
    ):

        def prepare() -> None:
            other.thread("t").append({"n": 0})
            with suppress(stateward.StoreUnavailable), other.workflow("signalled", kind="k"):
                raise stateward.StoreUnavailable("left")

        prepare()
        call(store)
        prepare()
        most = Points().of(partial(call, store))
        numbers = range(1, most + 1)
        for number in numbers if samples is None else drawn.sample(numbers, min(samples, most)):
            prepare()
            Interrupt(number).during(partial(call, store))
            prepare()
            for each in (store, other):
                with suppress(stateward.KeyReusedError):
                    call(each)
                assert each.thread("after").append({"n": number}).status == "stored"


@pytest.mark.parametrize("name", PUBLIC)
def test_wherever_a_public_write_is_interrupted_all_go_on(sqlite: str, name: str) -> None:
    interrupted_everywhere(sqlite, name, 8)


@pytest.mark.soak
@pytest.mark.parametrize("name", PUBLIC)
def test_wherever_a_public_write_is_interrupted_all_go_on_at_every_point(
    url: str, name: str
) -> None:
    interrupted_everywhere(url, name, None)
