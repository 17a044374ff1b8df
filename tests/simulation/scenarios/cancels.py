"""Workflows cancelled at any moment: one end each, no child left behind, no question, no lease."""

from __future__ import annotations

from collections import Counter
from functools import partial

from simulation.simulation import NAMESPACE, Process, Simulation
from stateward.errors import (
    InvalidInput,
    LeaseHeld,
    LeaseLost,
    StoreUnavailable,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowFinished,
)
from stateward.kinds import QUESTION
from stateward.ops import Head, List, Listed
from stateward.state.run import Run

FINISHED = ("completed", "failed", "cancelled")
UNSURE = (StoreUnavailable, LeaseLost, LeaseHeld, TimeoutError)


class Agency:
    """Workflows with a child each, both of which ask people, and what everybody was told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        self.ids = [f"w-{number}" for number in range(plan.randint(2, 4))]
        self._takes = plan.choice((0.0, 0.5, 3.0))
        self._lingers = plan.choice((0.0, 10.0))
        self._asks = plan.random() < 0.7
        self._sleeps = plan.choice((0.0, 1.0))
        self.cancelled: set[str] = set()  # somebody was told that they cancelled it
        self.completed: set[str] = set()  # somebody was told that it has completed
        self.late: Counter[str] = Counter()  # steps that began after that
        self.retrying = False

    # --- the workflows --------------------------------------------------------------

    async def parent(self, process: Process, run: Run) -> str:
        for name in ("first", "second", "third"):
            await run.step(name, self._step, process, run.id)
        part = await run.child("part", kind="child")
        if self._asks:
            await run.wait("approval", ask={"part": part}, for_="team")
        await run.step("last", self._step, process, run.id)
        await process.pause(self._lingers)  # nothing is recorded between here and the end
        return f"{run.id} and {part}"

    async def child(self, process: Process, run: Run) -> str:
        await run.step("make", self._step, process, run.id)
        if self._sleeps:
            await run.sleep(self._sleeps)
        if self._asks:
            await run.wait("approval", ask="is it good?", for_="anna")
        await run.step("check", self._step, process, run.id)
        return run.id

    async def _step(self, process: Process, id: str) -> str:
        if id in self.cancelled and not self.retrying:
            self.late[id] += 1
        await process.pause(self._takes)
        return id

    # --- what the processes do ------------------------------------------------------

    async def begin(self, process: Process) -> None:
        for id_ in process.chance.sample(self.ids, k=len(self.ids)):
            workflow = process.store.workflow(
                id_, kind="parent", user="u", ttl=self._simulation.ttl, wait=0
            )
            try:
                async with process.patience():
                    async with workflow as run:
                        run.result = await self.parent(process, run)
                    if not run.parked and run.status != "cancelled":
                        self.completed.add(id_)
            except (*UNSURE, WorkflowFinished, WorkflowFailed):
                pass
            await process.pause(2.0)

    async def cancel(self, process: Process) -> None:
        for id_ in process.chance.sample(self.ids, k=process.chance.randint(1, len(self.ids))):
            await process.pause(process.chance.choice((3.0, 20.0)))
            try:
                async with process.patience():
                    if await process.store.workflow(id_, user="u").cancel("by chance"):
                        self.cancelled.add(id_)
            except (*UNSURE, InvalidInput):
                pass  # not begun yet, or nobody knows
            except WorkflowCancelled:
                self._simulation.violated(f"{id_} cannot be cancelled because it is cancelled")
            except WorkflowFinished:
                pass

    async def answer(self, process: Process, count: int) -> None:
        for _ in range(count):
            await process.pause(4.0)
            try:
                async with process.patience():
                    questions = [question async for question in process.store.waiting()]
                    for question in questions:
                        await process.store.answer(question, process.name)
            except UNSURE:
                pass

    async def work(self, process: Process) -> None:
        handlers = {"parent": partial(self.parent, process), "child": partial(self.child, process)}
        await process.store.work(handlers, ttl=self._simulation.ttl, poll=2.0)

    # --- the end --------------------------------------------------------------------

    def head(self, id: str) -> Head:
        return self._simulation.peek("workflow", id).head

    def settled(self, id: str) -> bool:
        """Whether it has ended, and nothing is left to be done about that."""
        heads = [self.head(id), self.head(child_of(id))]
        return heads[0].status in FINISHED and all(head.due is None for head in heads)

    def shown(self) -> list[str]:
        """The questions that are open, seen from outside."""
        listed = self._simulation.ask(List(NAMESPACE, kind=QUESTION, limit=1000))
        assert isinstance(listed, Listed)
        return [found.entity.id for found in listed.entities]

    def judge(self, id: str) -> None:
        require = self._simulation.require
        head, child = self.head(id), self.head(child_of(id))
        require(not {id} <= self.cancelled & self.completed, f"{id} had two ends")
        if id in self.cancelled:
            require(head.status == "cancelled", f"{id} was cancelled and is {head.status}")
        if id in self.completed:
            require(head.status == "completed", f"{id} had completed and is {head.status}")
        require(self.late[id] <= 1, f"{id} was cancelled and began {self.late[id]} steps")
        if head.status == "cancelled":
            ended = not child.exists or child.status in FINISHED
            require(ended, f"{id} was cancelled, its child is {child.status}")
        else:
            require(head.status == child.status, f"{id} {head.status}, its child {child.status}")
        for each in (head, child):
            over = each.lease is None or each.lease.until <= self._simulation.now()
            require(over, f"what has ended is still held: {each.lease}")


def child_of(id: str) -> str:
    return f"{id}/part#1"


async def cancels(simulation: Simulation) -> None:
    """Replicas begin, cancel, answer and work; what was cancelled is retried in the end."""
    plan = simulation.plan
    agency = Agency(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        simulation.job(process, agency.begin(process), "begins")
        simulation.job(process, agency.answer(process, plan.randint(2, 5)), "answers")
        if plan.random() < 0.7:
            simulation.job(process, agency.cancel(process), "cancels")
    for _ in range(plan.randint(1, 2)):
        simulation.service(agency.work, "works")
    await simulation.storm(60.0, calm=300.0)

    healthy = simulation.process()
    simulation.service(agency.work, "works")
    simulation.job(healthy, agency.begin(healthy), "begins")
    await simulation.quiet(300.0)
    await all_ended(simulation, agency, healthy)
    for id_ in agency.ids:
        agency.judge(id_)
    simulation.require(agency.shown() == [], f"nobody waits, and there is {agency.shown()}")

    agency.retrying = True
    agency.cancelled.clear()
    for id_ in agency.ids:
        if agency.head(id_).status != "completed":
            simulation.require(
                await healthy.store.workflow(id_, user="u").retry(), f"{id_} is not retried"
            )
    await all_ended(simulation, agency, healthy)
    for id_ in agency.ids:
        agency.judge(id_)
        status = agency.head(id_).status
        simulation.require(status == "completed", f"{id_} was retried and is {status}")
        result = await healthy.store.workflow(id_, user="u").result(wait=0)
        simulation.require(result == f"{id_} and {child_of(id_)}", f"{id_} gives {result!r}")
    simulation.require(agency.shown() == [], f"nobody waits, and there is {agency.shown()}")
    simulation.judge_everybody()


async def all_ended(simulation: Simulation, agency: Agency, healthy: Process) -> None:
    """Whatever is asked is answered, until nothing is left to be done."""
    for _ in range(12):
        if all(agency.settled(id_) for id_ in agency.ids):
            return
        await agency.answer(healthy, 3)
        await simulation.pause(10.0)
    for id_ in agency.ids:
        done = partial(agency.settled, id_)
        await simulation.until(done, 60.0, f"{id_} is stranded: {agency.head(id_)}")
