"""Every public method that writes, interrupted at every await.

Whatever ends a call, be it a cancellation or an exception that a signal handler raised: nothing is
wedged, no lease is kept, nobody else gets the exception, and a write is whole or not there.
The methods are those of the table in `conformance.state.methods`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

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
from stateward.state.run_record import DEATHS
from stateward.testing.conformance.harness import Caller
from stateward.world import World

POLICY = Policy(threads="raise", write_timeout=60.0, read_timeout=60.0)
PATIENCE = 25.0  # less than a lease lasts that was not given back
# Hashes of the operations log are over times, and tell one run from another as stamps do.
STAMP = re.compile(
    r'"(stamp|after|previous|hash)":"[^"]*"|"(since|until|asked)":[0-9.]+|\d{17}-[\w-]{16}'
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
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._work.send, None)
        for at in count(1):
            try:
                waiting = step()
            except StopIteration as end:
                return end.value
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


async def everywhere(make: Make, thrown: type[BaseException] | None, names: Sequence[str]) -> None:
    h = StoreHarness(make, World())
    replica = await h.replica()
    try:
        for name in names:
            method = METHODS[name]
            allowed = await allowed_states(h, replica, name, method)
            for number in count(1):
                at = f"{name}, at await {number}"
                options = {"namespace": f"{name}-{number}", "policy": POLICY, "spill": False}
                async with h.store(**options) as store, h.store(**options) as other:
                    if not await interrupted(store, method, number, thrown):
                        break
                    left = await state_of(replica, f"{name}-{number}")
                    assert left in allowed, f"{at}: {sorted(left)}"
                    await again(other, method, at)
    finally:
        await h.close()


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
    url = parse(f"sqlite:///{folder / 'agents.db'}?durability=relaxed")
    return lambda world: create_engine(url, world)


# What tells one exception of a signal from another is above the engine and in asyncio, so over a
# file one of them is enough: there it may come while another thread is at work.
@pytest.mark.parametrize(
    ("place", "thrown"),
    [
        (in_memory, None),
        (in_memory, Terminated),
        (in_memory, KeyboardInterrupt),
        (in_a_file, None),
        (in_a_file, Terminated),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_wherever_a_call_is_interrupted_all_go_on(
    place: Callable[[Path], Make], thrown: type[BaseException] | None, tmp_path: Path
) -> None:
    asyncio.run(everywhere(place(tmp_path), thrown, list(METHODS)))
