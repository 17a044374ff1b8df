"""Answers of a run, and refusals that it handled, are facts of the run: for every method."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from conformance.state import operations
from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.errors import (
    EffectUnknown,
    InvalidInput,
    StateConflictError,
    StoreUnavailable,
    WorkflowFailed,
)
from stateward.state.run import Run
from stateward.store import Store
from stateward.testing.conformance.harness import raises

MACHINE = {"a": ["b"], "b": ["c"], "c": []}


class World:
    """The world around a workflow: it refuses first, then answers, each time something else."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.refuses = True
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def refuse(self) -> int:
        number = self.count()
        if self.refuses:
            raise LookupError("refused", number)
        return number

    def lose(self) -> int:
        self.count()
        raise TimeoutError("no reply")


async def nothing(world: World) -> None:
    pass


async def resolve(world: World) -> None:
    await world.store.effect("workflow/w/effect e#1").resolve("done", result="found")


async def move(world: World) -> None:
    await world.store.workflow("w").transition("b")


async def send(world: World) -> None:
    await world.store.workflow("w").signal("s", "late")


class Fact(NamedTuple):
    """A call that is answered, or refused, and a change after which it would not be so again."""

    call: Callable[[Run, World], Awaitable[Any]]
    refused: type[Exception] | None = None
    change: Callable[[World], Awaitable[Any]] = nothing


# A new method of `Run` needs a row. Those with an empty one answer nothing that could differ, or
# only park the run: the cases of `child` are below, for all others those of `steps` are enough.
FACTS: dict[str, list[Fact]] = {
    "step": [
        Fact(lambda run, world: run.step("s", world.count)),
        Fact(lambda run, world: run.step("s", world.refuse), LookupError),
    ],
    "effect": [
        Fact(lambda run, world: run.effect("e", world.count)),
        Fact(lambda run, world: run.effect("e", world.refuse, attempts=3), LookupError),
        Fact(lambda run, world: run.effect("e", world.lose), EffectUnknown, resolve),
        Fact(lambda run, world: run.effect("e", world.lose, keyed=True), EffectUnknown, resolve),
    ],
    "transition": [
        Fact(lambda run, world: run.transition("b")),
        Fact(lambda run, world: run.transition("c"), InvalidInput, move),
        Fact(lambda run, world: run.transition("c", expect="b"), StateConflictError, move),
    ],
    "wait": [Fact(lambda run, world: run.wait("s", timeout=0.0), TimeoutError, send)],
    "sleep": [Fact(lambda run, world: run.sleep(0.0))],
    "child": [],
    "save": [],
    "checkpoint": [],
    "leave": [],
}
REFUSALS = (LookupError, EffectUnknown, InvalidInput, StateConflictError, TimeoutError)


@case
async def every_method_of_a_run_has_a_row_of_facts(h: StoreHarness) -> None:
    methods = {name for name, method in vars(Run).items() if inspect.isfunction(method)}
    public = {name for name in methods if not name.startswith("_")}
    assert public == FACTS.keys(), "say in FACTS what makes an answer of the method a fact"


async def drive(
    store: Store, world: World, fact: Fact, *, id: str = "w", dies: bool = False
) -> str:
    """Return what the code saw, which a step then hangs on."""
    async with store.workflow(id, kind="k", machine=MACHINE, user="u") as run:
        try:
            saw = f"answered {await fact.call(run, world)}"
        except REFUSALS as error:
            saw = f"{type(error).__name__} {error} {vars(error)}"
        agreed = await run.step("seen", lambda: saw)
        assert agreed == saw, "the code went on with something else than before"
        assert (fact.refused is None) == saw.startswith("answered")
        if dies:
            raise StoreUnavailable("for others to go on")
    return saw


@case
async def what_a_run_saw_it_sees_in_each_replay_and_fork(h: StoreHarness) -> None:
    for name, facts in FACTS.items():
        for number, fact in enumerate(facts):
            store = h.store(namespace=f"{h.namespace} {name} {number}")
            world = World(store)
            with raises(StoreUnavailable):
                await drive(store, world, fact, dies=True)
            calls, world.refuses = world.calls, False
            await store.workflow("w").fork("seen#1", id="f")
            await fact.change(world)
            saw = await drive(store, world, fact)
            assert await drive(store, world, fact) == saw  # a replay of what has ended
            assert (await drive(store, world, fact, id="f")).replace("'f'", "'w'") == saw
            assert world.calls == calls, (name, number)


@case
async def what_a_child_came_to_is_a_fact_whatever_becomes_of_it(h: StoreHarness) -> None:
    for healthy in (True, False):
        store = h.store(namespace=f"{h.namespace} {healthy}")
        answers = iter(("first", "second"))

        def make(run: Run, healthy: bool = healthy, answers: Any = answers) -> str:
            answer = next(answers)
            if answer == "first" and not healthy:
                raise LookupError("refused")
            return str(answer)

        async def child(run: Run, make: Any = make) -> Any:
            return make(run)

        async def parent(run: Run) -> str:
            try:
                saw = str(await run.child("c", kind="child"))
            except WorkflowFailed:
                saw = "failed"
            await run.wait("go")
            return saw

        assert await operations.drive(store, parent)
        await operations.work(store, child=child)
        assert await operations.drive(store, parent)  # it has seen what came of the child
        if healthy:
            await store.workflow("w/c#1").delete()
        else:
            assert await store.workflow("w/c#1").retry()
        await operations.work(store, child=child)
        await store.workflow("w").signal("go")
        await operations.work(store, child=child, k=parent)
        assert await store.workflow("w").result(wait=0) == ("first" if healthy else "failed")
