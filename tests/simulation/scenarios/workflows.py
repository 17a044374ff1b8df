"""Workflows driven by whoever lives: no step twice, no signal lost, nothing left lying."""

from __future__ import annotations

import asyncio
from functools import partial
from unittest.mock import patch

from simulation.programs import KIND, MACHINE, USER, Interpreter, Program, draw, judge
from simulation.simulation import Process, Simulation
from stateward.errors import (
    InvalidInput,
    LeaseHeld,
    LeaseLost,
    Permanent,
    StateConflictError,
    StoreUnavailable,
    WorkflowFinished,
)
from stateward.state import run_record
from stateward.state.workflows import Workflow

FINISHED = ("completed", "failed")


class Office:
    """All the workflows of a run, and what the processes do with them."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        self.programs = [draw(plan, f"w-{number}") for number in range(plan.randint(2, 4))]
        self.interpreter = Interpreter(simulation)
        self._told_first: dict[tuple[str, str], str] = {}

    async def begin(self, process: Process) -> None:
        """Begin or go on with every workflow."""
        for program in process.chance.sample(self.programs, k=len(self.programs)):
            try:
                async with process.patience(), self.workflow(process, program) as run:
                    await self.interpreter.carry_out(process, run)
            except (StoreUnavailable, LeaseLost, LeaseHeld, Permanent, TimeoutError):
                pass
            except WorkflowFinished:
                pass  # a finished workflow takes no state any more
            await process.pause(2.0)

    def workflow(self, process: Process, program: Program) -> Workflow:
        return process.store.workflow(
            program.id,
            kind=KIND,
            user=USER,
            input={"program": [list(_fields(line)) for line in program.instructions]},
            machine=MACHINE,
            ttl=self._simulation.ttl,
            wait=process.chance.choice((0, 4.0, None)),
        )

    async def signal(self, process: Process, tries: int) -> None:
        """Send every signal with its key, and once more: a human who clicks twice."""
        for program in self.programs:
            for name, key in program.signals:
                await process.pause(4.0)
                for _ in range(tries):
                    await self._send(process, program, name, key)

    async def _send(self, process: Process, program: Program, name: str, key: str) -> None:
        workflow = process.store.workflow(program.id, user=USER)
        try:
            async with process.patience():
                first = await workflow.signal(name, key, key=key)
        except (StoreUnavailable, TimeoutError):
            return
        except (WorkflowFinished, InvalidInput):
            return  # it is over, or not begun yet
        if first:
            who = self._told_first.setdefault((program.id, key), process.name)
            self._simulation.require(
                who == process.name, f"both {who} and {process.name} sent {key} first"
            )

    async def move(self, process: Process, count: int) -> None:
        """Move workflows along their machine, without driving them."""
        for _ in range(count):
            workflow = process.store.workflow(process.chance.choice(self.programs).id, user=USER)
            to = process.chance.choice(sorted(MACHINE))
            expect = process.chance.choice((None, *sorted(MACHINE)))
            try:
                await workflow.transition(to, expect=expect)
            except (StoreUnavailable, StateConflictError, InvalidInput, WorkflowFinished):
                pass
            await process.pause(3.0)

    async def work(self, process: Process) -> None:
        """Drive what nobody drives."""
        await process.store.work(
            {KIND: lambda run: self.interpreter.carry_out(process, run)},
            ttl=self._simulation.ttl,
            poll=2.0,
        )


async def workflows(simulation: Simulation) -> None:
    """Replicas begin, signal, move and work; in the end everything has come to its end."""
    with patch.object(run_record, "SNAPSHOT_ENTRIES", 4):  # short programs put some too
        await _workflows(simulation)


async def _workflows(simulation: Simulation) -> None:
    plan = simulation.plan
    office = Office(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        simulation.job(process, office.begin(process), "begins")
        simulation.job(process, office.signal(process, plan.randint(1, 2)), "signals")
        if plan.random() < 0.5:
            simulation.job(process, office.move(process, 3), "moves")
    for _ in range(plan.randint(1, 2)):
        simulation.service(office.work, "works")
    await simulation.storm(60.0, calm=300.0)

    healthy = simulation.process()
    simulation.job(healthy, office.begin(healthy), "begins")
    simulation.job(healthy, office.signal(healthy, 1), "signals")
    await deploy(simulation, office)
    simulation.service(office.work, "works")
    await simulation.quiet(300.0)
    await office.signal(healthy, 1)
    for program in office.programs:
        done = partial(finished, simulation, program)
        await simulation.until(done, 200.0, f"{program.id} is stranded")
        judge(simulation, program)
        if not program.doomed:
            await replayed(simulation, office, healthy, program)
    simulation.judge_everybody()


async def deploy(simulation: Simulation, office: Office) -> None:
    """A process that is told to end gives everything back at once."""
    process = simulation.process()
    working = [process.start(office.work(process), "works") for _ in range(3)]
    await simulation.pause(simulation.plan.uniform(0.0, 6.0))
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    await process.store.close()
    for program in office.programs:
        lease = simulation.peek("workflow", program.id).head.lease
        simulation.require(
            lease is None or lease.holder != process.name, f"{process.name} left {lease} behind"
        )


def finished(simulation: Simulation, program: Program) -> bool:
    return simulation.peek("workflow", program.id).head.status in FINISHED


async def replayed(
    simulation: Simulation, office: Office, healthy: Process, program: Program
) -> None:
    """A finished workflow gives its answers again, and takes no new step."""
    async with healthy.store.workflow(program.id, user=USER) as run:
        await office.interpreter.replay(run)
        try:
            await run.step("one more", lambda: None)
        except WorkflowFinished:
            return
    simulation.violated(f"{program.id} is finished and took one more step")


def _fields(line: object) -> tuple[object, ...]:
    return tuple(getattr(line, name) for name in ("what", "name", "seconds"))
