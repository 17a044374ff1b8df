"""Approvals: what workflows ask people is listed oldest first, and answered once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.operations import drive, told, work
from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, StatewardError, WorkflowCancelled
from stateward.ops import List, Op, Outcome
from stateward.records import OpenQuestion
from stateward.state.run import Run
from stateward.store import Store
from stateward.testing.conformance.harness import raises


async def inbox(store: Store, *args: Any, **options: Any) -> list[OpenQuestion]:
    return [question async for question in store.waiting(*args, **options)]


async def refund(run: Run) -> Any:
    """Asks the team, and then somebody in it."""
    first = await run.wait("approval", ask={"amount": 40}, for_="team", timeout=1000)
    return [first, await run.wait("approval", ask={"sure": True}, for_="anna")]


@case
async def what_a_workflow_asks_is_shown_until_it_is_answered(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.workflow("w", kind="k", user="u").start()
        assert await inbox(store) == []
        await work(store, k=refund)
        (asked,) = await inbox(other, "approval", for_="team")
        assert (asked.workflow, asked.kind, asked.user) == ("w", "k", "u")
        assert (asked.signal, asked.ask, asked.for_) == ("approval", {"amount": 40}, "team")
        assert asked.until is not None
        assert 999 < (asked.until - asked.asked_at).total_seconds() < 1001
        assert await other.answer(asked, "yes")
        assert await inbox(store) == []  # before anybody has driven it
        assert not await store.answer(asked, "no")
        await work(store, k=refund)
        (sure,) = await inbox(other)
        assert (sure.for_, sure.ask, sure.until) == ("anna", {"sure": True}, None)
        assert not await other.answer(asked.id, "late")  # nothing for this other question
        await work(store, k=refund)
        assert await inbox(other) == [sure]
        assert await other.answer(sure.id, "very")
        await work(store, k=refund)
        assert await store.workflow("w").result(wait=0) == ["yes", "very"]
        assert await inbox(store) == []
        assert not await store.answer("no such question", 1)


@case
async def a_plain_signal_answers_too(h: StoreHarness) -> None:
    async with h.store() as store:
        await drive(store, refund)
        assert await store.workflow("w").signal("approval", "by hand")
        await work(store, k=refund)
        (asked,) = await inbox(store)
        assert asked.for_ == "anna"


@case
async def an_answer_after_the_deadline_does_not_count_though_no_worker_ran(h: StoreHarness) -> None:
    """As when the workers are being deployed while the time for the answer runs out."""

    async def approved(run: Run) -> Any:
        try:
            return await run.wait("approval", ask="refund?", timeout=0.05)
        except TimeoutError:
            return "too late"

    async with h.store() as store:
        await store.workflow("w", kind="k").start()
        await work(store, k=approved)
        (asked,) = await inbox(store)
        await h.pass_time(0.1)
        assert not await store.answer(asked, True)
        assert await inbox(store) == []
        await work(store, k=approved)
        assert await store.workflow("w").result(wait=0) == "too late"


@clock_case
async def an_inbox_is_in_the_order_of_asking(h: StoreHarness) -> None:
    async with h.store() as store:

        async def ask(run: Run) -> None:
            await run.wait(run.input["signal"], for_=run.input["for"])

        ids = [f"w-{(7 * n) % 10}" for n in range(10)]
        for number, id_ in enumerate(ids):
            said = {"signal": "review" if number % 3 else "approval", "for": f"r{number % 2}"}
            async with store.workflow(id_, kind="k", input=said, user=f"u{number % 5}") as run:
                await ask(run)
            await h.pass_time(1)
        assert [q.workflow for q in await inbox(store)] == ids
        assert [q.workflow for q in await inbox(store, "approval")] == ids[::3]
        assert [q.workflow for q in await inbox(store, for_="r1")] == ids[1::2]
        assert [q.workflow for q in await inbox(store, "approval", for_="r1")] == ids[3::6]
        assert [q.workflow for q in await inbox(store, user="u2")] == ids[2::5]
        first = await inbox(store, limit=4)
        assert [q.workflow for q in first] == ids[:4]
        assert [q.workflow for q in await inbox(store, after=first[-1].id)] == ids[4:]
        with raises(InvalidInput):
            await inbox(store, limit=0)


@case
async def a_question_goes_with_the_wait_and_with_the_workflow(h: StoreHarness) -> None:
    async with h.store() as store:

        async def ask(run: Run) -> None:
            await run.wait("approval", ask="?")

        async def over(run: Run) -> None:
            try:
                await run.wait("approval", ask="?", timeout=0.05)
            except TimeoutError:
                pass

        await drive(store, ask, "cancelled")
        await drive(store, ask, "deleted")
        await drive(store, over, "over")
        assert len(await inbox(store)) == 3
        await store.workflow("cancelled").cancel()
        await store.workflow("deleted").delete()
        assert [q.workflow for q in await inbox(store)] == ["over"]
        await h.pass_time(h.span * 2)
        await drive(store, over, "over")
        assert await inbox(store) == []
        assert await store.workflow("cancelled").retry()
        await work(store, k=ask)
        assert [q.workflow for q in await inbox(store)] == ["cancelled"]


@case
async def a_question_of_a_workflow_that_ends_without_its_answer_goes(h: StoreHarness) -> None:
    """A failing workflow had asked in an earlier drive, and asks no more."""
    async with h.store() as store:

        async def ask(run: Run) -> None:
            await run.wait("approval", ask="?")

        async def changed(run: Run) -> None:
            raise ValueError("the code has changed")

        async def ended(run: Run) -> None:
            pass

        for id_, code in (("failed", changed), ("completed", ended)):
            await drive(store, ask, id_)
            try:
                await drive(store, code, id_)
            except ValueError:
                pass
            assert (await told(store, id_)).status == id_
        assert await inbox(store) == []


@case
async def a_page_of_the_inbox_is_one_round_trip(h: StoreHarness) -> None:
    batches: list[Sequence[Op]] = []

    class Counted(Passthrough):
        async def execute(
            self, ops: Sequence[Op], *, deadline: float | None = None
        ) -> list[Outcome]:
            batches.append(ops)
            return await super().execute(ops, deadline=deadline)

    async with h.store() as store:
        for n in range(30):
            await drive(store, refund, f"w{n}")
    counted = Counted(h.make_engine())
    options: dict[str, Any] = {"namespace": h.namespace, "world": h.world, "heartbeat": None}
    async with Store(counted, **options) as store:
        batches.clear()
        assert len(await inbox(store, "approval", for_="team", limit=20)) == 20
        assert [[type(op) for op in ops] for ops in batches] == [[List]]


class Dead(Exception):
    """What ends a process: no failure of the store, which would be waited out."""


class DiesBefore(Passthrough):
    """An engine whose process is dead from its call number `at` on."""

    def __init__(self, engine: Engine, at: int) -> None:
        super().__init__(engine)
        self.calls = 0
        self._at = at

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.calls += 1
        if self.calls >= self._at:
            raise Dead
        return await super().execute(ops, deadline=deadline)


async def each_death(
    h: StoreHarness, name: str, act: Callable[[Store], Any], judge: Callable[[Store], Any]
) -> None:
    """A process dies before each of its calls; what others find then is judged."""
    at = 0
    while True:
        at += 1
        options: dict[str, Any] = {"namespace": f"{h.namespace}-{name}-{at}", "world": h.world}
        async with h.store(**options) as other:
            await drive(other, refund, "w")
            engine = DiesBefore(h.make_engine(), at)
            async with Store(engine, **options, heartbeat=None) as dying:
                try:
                    await act(dying)
                except Dead:
                    pass
            await judge(other)
        if engine.calls < at:
            return


@case
async def whoever_dies_while_answering_or_cancelling_leaves_no_wrong_question(
    h: StoreHarness,
) -> None:
    async def answer(store: Store) -> None:
        (asked,) = await inbox(store)
        await store.answer(asked, "yes")

    async def cancel(store: Store) -> None:
        await store.workflow("w").cancel()

    async def judge(store: Store) -> None:
        """Shown if and only if it is waited for, once a worker has looked."""
        await work(store, k=refund)
        info = await told(store)
        shown = [question.for_ for question in await inbox(store)]
        waits = [wait.what for wait in info.waits]
        assert len(shown) == len(waits) == (info.status == "active"), (shown, info)
        if info.status == "active":
            (asked,) = await inbox(store)
            assert await store.answer(asked, "yes")
            await work(store, k=refund)

    await each_death(h, "answer", answer, judge)
    await each_death(h, "cancel", cancel, judge)


@case
async def nothing_is_asked_for_a_user_who_is_erased_meanwhile(h: StoreHarness) -> None:
    """An erasure before every single call of a driver that asks, and has a child."""
    replica = await h.replica()

    class Meanwhile(Passthrough):
        calls = 0
        at = 0
        erasing: Store

        async def execute(
            self, ops: Sequence[Op], *, deadline: float | None = None
        ) -> list[Outcome]:
            self.calls += 1
            if self.calls == self.at:
                await self.erasing.user("u").erase()
            return await super().execute(ops, deadline=deadline)

    async def family(run: Run) -> None:
        await run.child("part", kind="part", input="secret")

    async def approval(run: Run) -> None:
        await run.wait("approval", ask="secret")

    for name, flow in (("family", family), ("approval", approval)):
        at = 0
        while True:
            at += 1
            options: dict[str, Any] = {"namespace": f"{h.namespace}-{name}-{at}", "world": h.world}
            async with h.store(**options) as other:
                await other.workflow("w", kind="k", user="u").start()
                engine = Meanwhile(h.make_engine())
                engine.at, engine.erasing = at, other
                async with Store(engine, **options, heartbeat=None) as store:
                    try:
                        async with store.workflow("w", user="u", wait=0) as run:
                            await flow(run)
                    except (StatewardError, InvalidInput):
                        pass
            if engine.calls < at:
                break
            entities = await replica.list_all(options["namespace"], expired=True)
            left = [e for e in entities if "secret" in repr(await replica.everything(e))]
            assert left == [], f"{name}, erased before call {at}: {left}"


@case
async def an_answer_to_a_cancelled_workflow_counts_for_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        await drive(store, refund)
        (asked,) = await inbox(store)
        await store.workflow("w").cancel()
        assert not await store.answer(asked, "yes")
        with raises(WorkflowCancelled):
            await store.workflow("w").result(wait=0)
