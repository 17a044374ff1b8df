"""A schedule kept by whoever lives: each tick has one task, none is early, none is left out."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import msgspec

from simulation.simulation import NAMESPACE, Process, Simulation
from stateward.codec import decode
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.ops import Found, List, Listed
from stateward.state.schedule_record import OnMissed, ScheduleState

EVERY = 5  # seconds
CRON = f"*/{EVERY} * * * * *"
ID = "s"
GRACE = 20.0


class Timetable:
    """What the processes do with one schedule, and what must hold of it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        policies: tuple[OnMissed, ...] = ("skip", "once", "all")
        self.missed = plan.choice(policies)
        self.at_most = plan.choice((2, 40))
        self.pauses = plan.random() < 0.3
        self._slow = plan.choice((0.2, 3.0))

    async def declare(self, process: Process, count: int) -> None:
        """Every replica declares it as it starts, and some pause it for a while."""
        for _ in range(count):
            try:
                async with process.patience():
                    await self._declare(process)
                    if self.pauses and process.chance.random() < 0.5:
                        await process.store.schedule(ID).pause()
                        await process.pause(15.0)
                        await process.store.schedule(ID).resume()
                    shown = await process.store.schedule(ID).info()
                    self._simulation.require(shown is not None, "a declared schedule is gone")
            except (StoreUnavailable, TimeoutError):
                pass
            except InvalidInput:
                pass  # nobody has declared it so far
            await process.pause(8.0)

    async def _declare(self, process: Process) -> None:
        await process.store.schedule(ID).declare(
            CRON, task="report", tick="at", missed=self.missed, at_most=self.at_most, grace=GRACE
        )

    async def work(self, process: Process) -> None:
        """Plan what is due, and run it."""
        simulation = self._simulation

        async def report(at: str) -> str:
            tick = datetime.fromisoformat(at).timestamp()
            simulation.require(tick % EVERY == 0, f"{at} is no tick")
            if simulation.faults.clock_is_true:
                early = tick - simulation.now()
                simulation.require(early <= 0, f"the tick {at} runs {early:.2f} s early")
            await process.pause(self._slow)
            return process.name

        await process.store.work(
            {}, tasks={"report": report}, ttl=simulation.ttl, poll=1.0, concurrency=2
        )

    def state(self) -> ScheduleState:
        """What is stored of it now."""
        stored = self._simulation.peek("schedule", ID, all_documents=True)
        return msgspec.convert(decode(stored.documents["state"].json), ScheduleState)

    def tasks(self) -> list[Found]:
        """What was recorded of its ticks."""
        found: list[Found] = []
        after: str | None = None
        while True:
            page = self._simulation.ask(
                List(NAMESPACE, kind="task", documents=("result",), after=after)
            )
            assert isinstance(page, Listed)
            found += page.entities
            if (after := page.next) is None:
                return found

    def keeps_up(self) -> bool:
        """Whether it has come to the present, and all that it recorded has run."""
        state = self.state()
        behind = state.next is None or state.next <= self._simulation.now() - EVERY
        return not behind and all(task.head.status == "completed" for task in self.tasks()[:-2])

    def judge(self) -> None:
        """No tick has two results; each has a task, or is counted as skipped."""
        require = self._simulation.require
        state, tasks = self.state(), self.tasks()
        results = Counter(
            found.documents["result"].version for found in tasks if "result" in found.documents
        )
        require(set(results) <= {1}, f"results were committed more than once: {results}")
        times = [
            datetime.fromisoformat(found.entity.id.partition("@")[2]).timestamp() for found in tasks
        ]
        if self.pauses or state.next is None or not times:
            return  # the ticks of a pause are nobody's
        # From the first that was ever decided to the next that will be.
        first = min(times) if state.gap is None else min(*times, state.gap.first)
        several = state.gap is not None and state.skipped > state.gap.skipped
        if several or (state.skipped and self._simulation.faults.fired["clock forward"]):
            return  # of several gaps only the last is told by its ends
        ticks = round((state.next - first) / EVERY)
        there = len(set(times) | set(state.planned)) + state.skipped
        require(there == ticks, f"of {ticks} ticks {len(times)} run: {state}")


async def schedules(simulation: Simulation) -> None:
    """Replicas declare and work, and die at it; in the end the schedule is kept again."""
    plan = simulation.plan
    timetable = Timetable(simulation)
    for _ in range(plan.randint(1, 2)):
        process = simulation.process()
        simulation.job(process, timetable.declare(process, plan.randint(2, 4)), "declares")
    for _ in range(plan.randint(2, 3)):
        simulation.service(timetable.work, "works")
    await simulation.storm(60.0, calm=120.0)

    healthy = simulation.process()
    await healthy.store.schedule(ID).resume() if await declared(healthy) else None
    await timetable._declare(healthy)
    simulation.service(timetable.work, "works")
    # A clock that was put forward by hours has left hundreds of ticks to run, one after the other.
    await simulation.until(timetable.keeps_up, 900.0, "the schedule is not kept")
    timetable.judge()
    simulation.judge_everybody()


async def declared(process: Process) -> bool:
    return await process.store.schedule(ID).info() is not None
