"""Every public method that writes, interrupted at every await.

Whatever ends a call, be it a cancellation or an exception that a signal handler raised: nothing is
wedged, no lease is kept, nobody else gets the exception, and a write is whole or not there.
The methods are those of the table in `conformance.state.methods`.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from conformance.state.harness import StoreHarness
from conformance.state.methods import METHODS, Method, prepare, says

from stateward import Policy, Store
from stateward.engine import Engine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, parse
from stateward.errors import InvalidInput, StatewardError
from stateward.kinds import HEARTBEAT
from stateward.ops import Op, Outcome
from stateward.state.workflow_record import DEATHS
from stateward.testing.conformance.harness import Caller
from stateward.world import World

POLICY = Policy(threads="raise", write_timeout=60.0, read_timeout=60.0)
PATIENCE = 25.0  # less than a lease lasts that was not given back
# Hashes of the operations log are over times, and tell one run from another as stamps do; the key
# of an effect has the namespace in it, which is another one for each run.
STAMP = re.compile(
    r'"(stamp|after|previous|hash|key)":"[^"]*"|"(since|until|asked|at)":[0-9.]+'
    r'|,\d{10}\.\d+,"[^"]*"|\d{17}-[\w-]{16}'
)

Make = Callable[[World], Engine]
State = frozenset[tuple[Any, ...]]


class Terminated(SystemExit):
    """What a handler of SIGTERM raises."""


class Slowly(Passthrough):
    """An engine that lets others run before it executes and before it answers."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        await asyncio.sleep(0)
        outcomes = await super().execute(ops, deadline=deadline)
        await asyncio.sleep(0)
        return outcomes


class Driven:
    """A coroutine that meets a cancellation, or an exception, at its `number`th await."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], number: int, error: BaseException | None
    ) -> None:
        self._work, self._number, self._error = work, number, error
        self.awaits = 0
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._work.send, None)
        for at in count(1):
            try:
                waiting = step()
            except StopIteration as end:
                return end.value
            self.awaits = at
            if at == self._number:
                self.reached = True
                if self._error is not None:
                    if waiting is not None:
                        waiting._asyncio_future_blocking = False
                    step = partial(self._work.throw, self._error)
                    continue
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield waiting
                step = partial(self._work.send, None)
            except BaseException as error:
                step = partial(self._work.throw, error)
        raise AssertionError("unreachable")


async def ended(driven: Driven) -> BaseException | None:
    """How it ended, in a task of its own; None: it went well."""

    async def drive() -> BaseException | None:
        try:
            await driven
        except BaseException as error:
            return error
        return None

    return await asyncio.wait_for(asyncio.ensure_future(drive()), PATIENCE)


async def state_of(replica: Caller, namespace: str) -> State:
    """All that is stored, but for times, stamps and leases."""
    found = set()
    for entity in await replica.list_all(namespace, expired=True):
        if entity.id == "bystander" or entity.kind == HEARTBEAT:
            continue  # a sign of life is due every ten seconds, whatever is called
        whole = await replica.everything(entity)
        bodies = tuple(entry.body for entry in whole.entries)
        documents = sorted(
            (name, value.json)
            for name, value in whole.documents.items()
            if name != DEATHS  # it comes and goes with the lease
        )
        text = STAMP.sub("", repr((bodies, documents)))
        found.add((entity.kind, STAMP.sub("", entity.id), whole.head.owner, text))
    return frozenset(found)


class Watched(Passthrough):
    """Notes what is stored after each call, and before the first."""

    def __init__(self, engine: Engine, look: Callable[[], Coroutine[Any, Any, State]]) -> None:
        super().__init__(engine)
        self._look = look
        self.seen: set[State] = set()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.seen.add(await self._look())
        outcomes = await super().execute(ops, deadline=deadline)
        self.seen.add(await self._look())
        return outcomes


async def allowed_states(h: StoreHarness, replica: Caller, name: str, method: Method) -> set[State]:
    """The states that the call goes through when nothing happens to it."""
    namespace = f"{name}-whole"
    async with h.store(namespace=namespace, policy=POLICY) as store:
        await prepare(store, "u", "said")
    engine = Watched(h.make_engine(), lambda: state_of(replica, namespace))
    async with Store(engine, namespace=namespace, policy=POLICY, spill=False) as store:
        await method.call(store, "u", says("new"))
    return engine.seen


async def everywhere(
    make: Make, thrown: type[BaseException] | None, names: Sequence[str], samples: int | None = None
) -> None:
    """At every await of these methods; with `samples`, at so many of each."""
    h, drawn, mark = StoreHarness(make, World()), random.Random(repr(thrown)), uuid4().hex
    replica = await h.replica()
    try:
        for name in names:
            method = METHODS[name]
            allowed = await allowed_states(h, replica, f"{mark}-{name}", method)
            numbers: Iterable[int] = count(1)
            if samples is not None:
                most = await awaits_of(h, f"{mark}-{name}-counted", method)
                numbers = drawn.sample(range(1, most + 1), min(samples, most))
            for number in numbers:
                at, namespace = f"{name}, at await {number}", f"{mark}-{name}-{number}"
                options = {"namespace": namespace, "policy": POLICY, "spill": False}
                async with h.store(**options) as store, h.store(**options) as other:
                    reached = await interrupted(store, method, number, thrown)
                    if not reached and samples is None:
                        break
                    left = await state_of(replica, namespace)
                    assert left in allowed, f"{at}: {sorted(left)}"
                    await again(other, method, at)
    finally:
        await h.close()


async def awaits_of(h: StoreHarness, namespace: str, method: Method) -> int:
    """How many awaits a call has that nothing happens to."""
    async with h.store(namespace=namespace, policy=POLICY, spill=False) as store:
        await prepare(store, "u", "said")
        driven = Driven(method.call(store, "u", says("new")), -1, None)  # type: ignore[arg-type]
        await ended(driven)
        return driven.awaits


async def interrupted(
    store: Store, method: Method, number: int, thrown: type[BaseException] | None
) -> bool:
    """Whether there was an await of that number; everybody goes on in any case."""
    await prepare(store, "u", "said")
    error = None if thrown is None else thrown("by a signal")
    call = method.call(store, "u", says("new"))
    driven = Driven(call, number, error)  # type: ignore[arg-type]
    beside = asyncio.ensure_future(store.thread("bystander").append(says("beside")))
    came = await ended(driven)
    if driven.reached and came is not None:
        expected = asyncio.CancelledError if thrown is None else thrown
        assert isinstance(came, expected | StatewardError), repr(came)
    assert (await asyncio.wait_for(beside, PATIENCE)).status == "stored"
    after = store.thread("bystander").append(says("after"))
    assert (await asyncio.wait_for(after, PATIENCE)).version == 2
    return driven.reached


async def again(other: Store, method: Method, at: str) -> None:
    """The same call once more, by another store: nobody has kept anything from it."""
    try:
        await asyncio.wait_for(method.call(other, "u", says("new")), PATIENCE)
    except TimeoutError:
        raise AssertionError(f"{at}: kept") from None
    except (StatewardError, InvalidInput):
        pass


def in_memory(_folder: Path) -> Make:
    model = Model()
    return lambda world: Slowly(MemoryEngine(model, world))


def in_a_file(folder: Path) -> Make:
    return at_url(f"sqlite:///{folder / 'agents.db'}?durability=relaxed")


def at_url(url: str) -> Make:
    parsed = parse(url)
    return lambda world: create_engine(parsed, world)


# The code that tells one exception of a signal from another is above the engine and in asyncio. A
# second exception, and one over a file, where it may come while another thread is at work, meets
# each method at a few points; in the soak, everywhere.
SAMPLES = {(in_memory, KeyboardInterrupt): 4, (in_a_file, Terminated): 6}


@pytest.mark.parametrize(
    ("place", "thrown"),
    [
        (in_memory, None),
        pytest.param(in_memory, Terminated, marks=pytest.mark.verify),
        pytest.param(in_memory, KeyboardInterrupt, marks=pytest.mark.verify),
        pytest.param(in_a_file, None, marks=pytest.mark.verify),
        pytest.param(in_a_file, Terminated, marks=pytest.mark.verify),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_wherever_a_call_is_interrupted_all_go_on(
    place: Callable[[Path], Make], thrown: type[BaseException] | None, tmp_path: Path
) -> None:
    samples = SAMPLES.get((place, thrown))
    asyncio.run(everywhere(place(tmp_path), thrown, list(METHODS), samples))


THROWN = [None, Terminated, KeyboardInterrupt]


# Over a server, what waits is a connection: each kind of end meets it in some methods at a few
# points here, and in all of them everywhere in the soak.
@pytest.mark.parametrize("thrown", THROWN)
@pytest.mark.parametrize("server", ["redis", "postgres"])
def test_over_a_server_all_go_on_too(
    server: str, thrown: type[BaseException] | None, request: pytest.FixtureRequest
) -> None:
    names = random.Random(f"{server} {thrown}").sample(list(METHODS), 8)
    asyncio.run(everywhere(at_url(request.getfixturevalue(server)), thrown, names, 2))


@pytest.mark.soak
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("thrown", THROWN)
@pytest.mark.parametrize("place", ["memory", "sqlite", "redis", "postgres"])
def test_wherever_a_call_is_interrupted_on_any_engine_all_go_on(
    place: str,
    thrown: type[BaseException] | None,
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    if place == "memory":
        make = in_memory(tmp_path)
    else:
        make = at_url(request.getfixturevalue(place))
    asyncio.run(everywhere(make, thrown, [name]))
