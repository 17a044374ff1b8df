"""Workflows of many steps: what grows is stored by its new part, and a resume reads little."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable
from conformance.state.steps import Steps
from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, LeaseLost, StoreUnavailable, WorkflowFinished
from stateward.ops import Commit, Delete, Entity, Fetched, Op, Outcome, Put
from stateward.state.workflow_record import SNAPSHOT
from stateward.store import Store
from stateward.testing.conformance.harness import raises

WORD = "word " * 60


def message(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{number} {WORD}"}


async def stored(h: StoreHarness, id: str = "w") -> Fetched:
    """All that the store has of a workflow."""
    replica = await h.replica()
    return await replica.everything(Entity(h.namespace, "workflow", id))


def size(fetched: Fetched) -> int:
    return sum(len(entry.body) for entry in fetched.entries)


async def park(run: Any) -> None:
    await run.wait("the end")


# --- values -----------------------------------------------------------------------------


async def converse(run: Any, turns: int) -> list[Any]:
    """Every step gives back the whole conversation."""
    messages: list[Any] = []
    for number in range(turns):

        def answer(said: list[Any], number: int = number) -> list[Any]:
            return [*said, message(number)]

        messages = await run.step("turn", answer, messages)
    return messages


@case
async def a_list_that_grows_is_stored_by_its_new_part(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k") as run:
            said = await converse(run, 20)
            await park(run)
        assert said == [message(number) for number in range(20)]
        assert size(await stored(h)) < 3 * len(str(said))  # and not ten times that
        async with other.workflow("w") as run:
            assert await converse(run, 22) == [message(number) for number in range(22)]
            await park(run)
        assert size(await stored(h)) < 3 * len(str(said))


@case
async def a_large_result_comes_back_as_it_was_whatever_is_new_in_it(h: StoreHarness) -> None:
    said = [message(number) for number in range(12)]
    values: list[Any] = [
        said,
        [*said, message(12)],
        [*said[3:], message(12)],  # a window that slid
        [{"summary": "of six"}, *said[6:]],
        [*said[:5], message(99), *said[6:]],
        said[::-1],
        {"messages": said, "left": 3, "deep": {"list": said[:4], "seen": [1, 1.0, True]}},
        {"messages": [*said, message(12)], "left": 2, "deep": {"list": said[:5], "seen": [1.0]}},
        {"deep": {"seen": [], "list": said[:5]}, "messages": said, "ümläut\n": None},
        WORD * 10,
        [],
        said,
    ]

    async def give(run: Any) -> list[Any]:
        return [await run.step("give", lambda value=value: value) for value in values]

    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k") as run:
            assert repr(await give(run)) == repr(values)
            await park(run)
        async with other.workflow("w") as run:
            assert repr(await give(run)) == repr(values)  # with the order of names, and 1 and 1.0
            await park(run)


@case
async def what_code_does_to_a_result_does_not_change_the_next_one(h: StoreHarness) -> None:
    async def changing(run: Any) -> list[list[Any]]:
        seen = []
        for number in range(4):
            given = await run.step("turn", lambda n=number: [message(m) for m in range(8 + n)])
            seen.append([dict(each) for each in given])
            given[0]["content"] = "changed in place"
            given.clear()
        return seen

    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k") as run:
            first = await changing(run)
            await park(run)
        async with other.workflow("w") as run:
            assert await changing(run) == first
            await park(run)


# --- records of several pages -----------------------------------------------------------


async def tell(store: Any, name: str, times: int) -> None:
    for number in range(times):
        await store.workflow("w").signal(name, number)


@clock_case
async def a_wait_that_began_long_ago_ends_in_time_in_a_long_record(h: StoreHarness) -> None:
    async def flow(run: Any) -> str:
        try:
            return str(await run.wait("approval", timeout=60))
        except TimeoutError:
            return "too late"

    for came, expected in ((False, "too late"), (True, "yes")):
        async with h.store() as store, h.store() as other:
            async with store.workflow("w", kind="k") as run:
                await run.step("ask", lambda: "asked")
                await flow(run)
            assert run.parked
            if came:
                await store.workflow("w").signal("approval", "yes")
            await tell(store, "news", 210)  # more than a page
            await h.pass_time(61)
            await store.workflow("w").signal("approval", "late")
            async with other.workflow("w") as run:
                await run.step("ask", lambda: "asked again")
                assert await flow(run) == expected
                assert [await run.wait("news") for _ in range(210)] == list(range(210))
            await store.workflow("w").delete()


# --- checkpoints ------------------------------------------------------------------------


async def talk(run: Any, steps: Steps, turns: int) -> list[str]:
    said: list[str] = run.checkpointed or []
    while len(said) < turns:
        said.append(await run.step("turn", steps.make, f"turn {len(said)}"))
        said.append(await run.step("turn", steps.make, f"turn {len(said)}"))
        await run.checkpoint(said)
    return said


def turns(count: int) -> list[str]:
    return [f"turn {number} made" for number in range(count)]


@case
async def a_restart_begins_at_the_last_checkpoint(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        async with store.workflow("w", kind="k") as run:
            assert run.checkpointed is None
            assert await talk(run, steps, 4) == turns(4)
            await run.step("turn", steps.make, "after")
            await park(run)
        async with other.workflow("w") as run:
            assert run.checkpointed == turns(4)
            assert run.unasked == ["turn#2.1"]
            assert await run.step("turn", steps.make, "after again") == "after made"
            await park(run)
        async with store.workflow("w") as run:
            assert await run.step("turn", steps.make, "after again") == "after made"
            await run.checkpoint({"said": turns(4)})
            assert run.checkpointed == {"said": turns(4)}
            assert await run.step("turn", steps.make, "the last") == "the last made"
        assert steps.made == [*(f"turn {number}" for number in range(4)), "after", "the last"]
        assert len(set(steps.keys)) == len(steps.keys)  # no two pieces of work share one
        async with other.workflow("w") as run:
            assert (run.status, run.checkpointed) == ("completed", {"said": turns(4)})
            assert await run.step("turn", steps.make, "the last again") == "the last made"
            with raises(WorkflowFinished):
                await run.checkpoint([])


@case
async def many_checkpoints_are_read_from_a_snapshot_which_may_be_lost(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        async with store.workflow("w", kind="k") as run:
            await talk(run, steps, 40)
            await store.workflow("w").signal("news", "early")  # the driver has not read it
            await talk(run, steps, 260)
            await park(run)
        everything = await stored(h)
        assert SNAPSHOT in everything.documents
        assert size(everything) < 6 * len(str(turns(260)))
        replica = await h.replica()
        entity = Entity(h.namespace, "workflow", "w")
        foreign = '{"version":999,"checkpoint":9,"signals":[],"value":"of another workflow"}'
        for meanwhile in (None, Delete(SNAPSHOT), Put(SNAPSHOT, foreign)):
            if meanwhile is not None:
                await replica.apply(entity, meanwhile)
            async with other.workflow("w") as run:
                assert await talk(run, steps, 260) == turns(260)
                await park(run)
        async with other.workflow("w") as run:
            assert await run.wait("news") == "early"
            assert await talk(run, steps, 262) == turns(262)
            await park(run)
        async with store.workflow("w") as run:  # what was taken before a checkpoint stays taken
            assert run.checkpointed == turns(262)
            await run.wait("news")
        assert run.parked
        assert len(steps.made) == 262


@case
async def results_grow_from_one_checkpoint_to_the_next(h: StoreHarness) -> None:
    async def flow(run: Any, upto: int) -> None:
        state = run.checkpointed or {"messages": [], "turn": 0}
        while state["turn"] < upto:
            state = await run.step("turn", answer, state)
            await run.checkpoint(state)

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        turn = state["turn"]
        return {"messages": [*state["messages"], message(turn)], "turn": turn + 1}

    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k") as run:
            await flow(run, 20)
            await run.step("turn", answer, run.checkpointed)
            await park(run)
        async with other.workflow("w") as run:
            assert len((await run.step("turn", answer, {}))["messages"]) == 21
            await run.checkpoint(run.checkpointed)
            await flow(run, 22)
        said = [message(number) for number in range(22)]
        assert run.checkpointed == {"messages": said, "turn": 22}
        assert size(await stored(h)) < 4 * len(str(said))


@clock_case
async def a_superseded_driver_takes_no_checkpoint(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        with raises(LeaseLost):
            async with store.workflow("w", kind="k", ttl=60) as run:
                await run.checkpoint("first")
                await h.pass_time(60)
                async with other.workflow("w", ttl=60) as successor:
                    assert successor.checkpointed == "first"
                    await successor.checkpoint("the successor's")
                    with raises(LeaseLost):
                        await run.checkpoint("stale")
                    with raises(LeaseLost):
                        await run.step("later", str)
        async with other.workflow("w") as run:
            assert run.checkpointed == "the successor's"


class Meddled(Passthrough):
    """An engine that lets something happen just before a snapshot is put."""

    def __init__(self, engine: Engine, meddle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(engine)
        self._meddle = meddle

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        commits = [op for op in ops if isinstance(op, Commit)]
        writes = [write for commit in commits for write in commit.writes]
        if any(isinstance(write, Put) and write.name == SNAPSHOT for write in writes):
            await self._meddle()
        return await super().execute(ops, deadline=deadline)


@clock_case
async def a_snapshot_that_comes_after_a_takeover_is_fenced(h: StoreHarness) -> None:
    other = h.store()

    async def take_over() -> None:
        await h.pass_time(60)
        async with other.workflow("w", ttl=60) as successor:
            assert successor.checkpointed == run.checkpointed > 10
            await successor.checkpoint("the successor's")
            await park(successor)

    meddled = Meddled(h.make_engine(), take_over)
    async with Store(meddled, namespace=h.namespace, world=h.world) as store:
        with raises(LeaseLost):
            async with store.workflow("w", kind="k", ttl=60) as run:
                for number in range(100):
                    await run.checkpoint(number)
                    await run.step("between", str)
    assert "the successor's" in (await stored(h)).documents[SNAPSHOT].json
    async with other.workflow("w") as run:
        assert run.checkpointed == "the successor's"
        await park(run)


@case
async def a_checkpoint_whose_answer_is_lost_is_one_or_the_other(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        steps = Steps()
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="k", ttl=h.span) as run:
                await run.checkpoint("first")
                await run.step("one", steps.make, "one")
                lost = store.faults.fail_after(times=None)
                with raises(StoreUnavailable):
                    await run.checkpoint("second")
                with raises(StoreUnavailable):
                    await run.step("one", steps.make, "two")
        lost.clear()
        await h.pass_time(h.span)
        async with other.workflow("w", wait=5) as run:
            assert run.checkpointed == "second"
            assert await run.step("one", steps.make, "three") == "three made"
        assert steps.made == ["one", "three"]


@case
async def a_checkpoint_is_refused_if_it_is_not_json_or_too_large(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k") as run:
            with raises(InvalidInput):
                await run.checkpoint({1: 2})
            with raises(InvalidInput):
                await run.checkpoint(object())
            assert await run.step("one", lambda: 1) == 1
            await run.checkpoint([1])
            await park(run)
        async with store.workflow("w") as run:
            assert run.checkpointed == [1]


# --- helped from outside, across checkpoints --------------------------------------------


class Shop:
    """A workflow in two halves with a checkpoint between them; paying fails until it is mended."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.mended = False

    async def make(self, what: str) -> str:
        self.made.append(what)
        if what == "pay" and not self.mended:
            raise ValueError("no such card")
        return f"{what} made"

    async def flow(self, run: Any) -> Any:
        if run.checkpointed is None:
            await run.step("look", self.make, "look")
            await run.checkpoint({"seen": await run.step("count", self.make, "count")})
        await run.step("look", self.make, "look again")
        paid = await run.step("pay", self.make, "pay")
        return [run.checkpointed, paid, await run.wait("approval")]

    async def drive(self, store: Store, id: str = "w") -> bool:
        """Begin it or go on with it; whether it was parked."""
        async with store.workflow(id, kind="k") as run:
            run.result = await self.flow(run)
        return bool(run.parked)


BEFORE_PAYING = ["look", "count", "look again"]
CAME_TO = [{"seen": "count made"}, "pay made", "yes"]


@case
async def a_retry_goes_on_after_the_last_checkpoint(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        shop = Shop()
        for replica in (store, other):
            with raises(ValueError):
                await shop.drive(replica)
            info = await store.workflow("w").info()
            assert info is not None
            assert info.failed_step == "pay#1.1"
            assert await store.workflow("w").retry()
        shop.mended = True
        assert await shop.drive(other)
        await store.workflow("w").signal("approval", "yes")
        assert not await shop.drive(store)
        assert shop.made == [*BEFORE_PAYING, "pay", "pay", "pay"]
        assert await store.workflow("w").result(wait=0) == CAME_TO


@case
async def a_checkpoint_that_is_taken_after_a_retry_is_gone_on_from(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        shop = Shop()

        async def flow(run: Any) -> None:
            for number in range(run.checkpointed or 0, 3):
                await run.step("pay", shop.make, "pay")
                await run.checkpoint(number + 1)
            await park(run)

        with raises(ValueError):
            async with store.workflow("w", kind="k") as run:
                await flow(run)
        await store.workflow("w").retry()
        shop.mended = True
        for replica in (store, other):
            async with replica.workflow("w") as run:
                await flow(run)
            assert (run.parked, run.checkpointed) == (True, 3)
        assert shop.made == ["pay"] * 4


@case
async def a_fork_stands_before_or_after_a_checkpoint(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        shop = Shop()
        shop.mended = True
        assert await shop.drive(store)
        await store.workflow("w").signal("approval", "yes")
        assert not await shop.drive(store)
        for step, made in (
            ("count#1", ["count", "look again", "pay"]),  # the checkpoint is taken again
            ("look#1.1", ["look again", "pay"]),
            ("pay#1.1", ["pay"]),
            ("wait approval#1.1", []),
        ):
            shop.made.clear()
            await store.workflow("w").fork(step, id=step)
            assert await shop.drive(other, step)
            await store.workflow(step).signal("approval", "yes")
            assert not await shop.drive(other, step)
            assert shop.made == made
            assert await store.workflow(step).result(wait=0) == CAME_TO


@case
async def a_fork_of_long_work_has_the_results_that_grew_up_to_it(h: StoreHarness) -> None:
    """Without the snapshot, and with results that are stored by what is new in them."""
    async with h.store() as store, h.store() as other:
        steps = Steps()
        async with store.workflow("w", kind="k") as run:
            await talk(run, steps, 160)
            await converse(run, 12)
            await park(run)
        assert SNAPSHOT in (await stored(h)).documents
        await store.workflow("w").fork("turn#80.11", id="f")
        assert SNAPSHOT not in (await stored(h, "f")).documents
        async with other.workflow("f") as run:
            assert run.checkpointed == turns(160)
            assert run.unasked == sorted(f"turn#80.{number}" for number in range(1, 11))
            assert await converse(run, 14) == [message(number) for number in range(14)]
        assert len(steps.made) == 160
