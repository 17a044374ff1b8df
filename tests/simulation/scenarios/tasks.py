"""Tasks delivered again and again: one result is committed, and everybody gets that one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct

from simulation.simulation import Process, Simulation
from stateward.codec import decode
from stateward.errors import (
    InvalidInput,
    LeaseHeld,
    LeaseLost,
    Permanent,
    StateConflictError,
    StoreUnavailable,
    TaskFailed,
)
from stateward.ops import Fetched
from stateward.state.work import idempotency_key

ATTEMPTS = 3
FINISHED = ("completed", "failed", "cancelled")
Function = Callable[[str], Coroutine[Any, Any, str]]


class Duty(Struct, frozen=True):
    """One task, and how its function behaves."""

    id: str
    fails: float  # how often a run fails, by chance
    gives_up: float  # how many of those failures are permanent
    seconds: float  # how long a run takes at most
    scheduled: float | None = None  # seconds from the beginning
    kept_for_ever: bool = False
    cancelled: bool = False  # somebody cancels it, whatever it does just then
    retried: bool = False  # somebody tries it again, whenever that can be done


class Duties:
    """What the processes deliver, and what came of it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        self.began = simulation.now()
        self.duties = [self._duty(number) for number in range(plan.randint(3, 6))]
        self.results: dict[str, str] = {}
        self.recorded: set[str] = set()  # scheduled ones whose caller was told so
        self.told_cancelled: set[str] = set()
        self._keys: dict[str, str] = {}
        self._runs = 0

    def _duty(self, number: int) -> Duty:
        plan = self._simulation.plan
        return Duty(
            f"task-{number}",
            plan.choice((0.0, 0.0, 0.4, 1.0)),
            plan.choice((0.0, 0.5)),
            plan.choice((0.5, 2.0, 8.0)),
            plan.uniform(2.0, 15.0) if plan.random() < 0.3 else None,
            plan.random() < 0.3,
            plan.random() < 0.3,
            plan.random() < 0.3,
        )

    def function(self, process: Process) -> Function:
        """What a task of this process runs."""
        by_id = {duty.id: duty for duty in self.duties}

        async def charge(id: str) -> str:
            duty = by_id[id]
            self._may_begin(duty)
            self._runs += 1
            result = f"{id} run {self._runs} by {process.name}"
            key = idempotency_key()
            self._simulation.require(
                self._keys.setdefault(id, key) == key, f"{id} has two idempotency keys"
            )
            await process.pause(duty.seconds)
            if process.chance.random() < duty.fails:
                if process.chance.random() < duty.gives_up:
                    raise Permanent(f"{result} gives up")
                raise ValueError(f"{result} fails")
            if process.chance.random() < 0.3:
                await process.store.shared("effects").patch({key: result})
            return result

        return charge

    def _may_begin(self, duty: Duty) -> None:
        """A run does not begin once there is nothing left to do, or before its time."""
        simulation = self._simulation
        if not simulation.faults.clock_is_true:
            return  # a clock that jumps ends leases early; then only the record is safe
        if duty.cancelled or duty.retried:
            return  # that ends leases too, of which one may just have been granted
        stored = self._stored(duty)
        simulation.require(
            stored.head.status != "completed", f"{duty.id} ran again after its result was stored"
        )
        if "error" in stored.documents:
            error = decode(stored.documents["error"].json)
            simulation.require(not error["permanent"], f"{duty.id} ran again after giving up")
            simulation.require(error["failures"] < ATTEMPTS, f"{duty.id} was tried too often")
        if duty.scheduled is not None:
            early = self.began + duty.scheduled - simulation.now()
            simulation.require(early < 1.0, f"{duty.id} ran {early:.1f} s before its time")

    async def deliver(self, process: Process, again: int) -> None:
        """Ask for every task, in any order, more than once."""
        for duty in process.chance.sample(self.duties * again, k=len(self.duties) * again):
            await self.ask(process, duty, process.chance.choice((None, 0, 3.0)))
            await process.pause(2.0)

    async def ask(self, process: Process, duty: Duty, wait: float | None) -> bool:
        """One delivery; True if the task has come to its end."""
        at = None if duty.scheduled is None else self.began + duty.scheduled
        more = {"retain": None} if duty.kept_for_ever else {}
        try:
            async with process.patience():
                result = await process.store.once(
                    duty.id,
                    self.function(process),
                    duty.id,
                    ttl=self._simulation.ttl,
                    wait=wait,
                    attempts=ATTEMPTS,
                    at=at,
                    **more,
                )
        except (TaskFailed, Permanent):
            return True
        except (LeaseHeld, LeaseLost, StoreUnavailable, TimeoutError, ValueError):
            return False
        if result is None:
            self.recorded.add(duty.id)
            return False
        first = self.results.setdefault(duty.id, result)
        self._simulation.require(first == result, f"one got {first!r}, another got {result!r}")
        return True

    async def meddle(self, process: Process) -> None:
        """Cancel tasks and try them again, as an operator does who knows nothing of the storm."""
        meddled = [duty for duty in self.duties if duty.cancelled or duty.retried] * 2
        for duty in process.chance.sample(meddled, k=len(meddled)):
            await process.pause(6.0)
            task = process.store.task(duty.id)
            try:
                async with process.patience():
                    if duty.retried and (not duty.cancelled or process.chance.random() < 0.5):
                        await task.retry()
                        continue
                    status = (await task.cancel(f"by {process.name}")).status
            except (StoreUnavailable, TimeoutError, InvalidInput, StateConflictError):
                continue  # it is not there yet, or has not failed
            self._simulation.require(
                status in ("cancelled", "completed") or duty.retried,
                f"{duty.id} is {status} after it was cancelled",
            )
            if status == "cancelled":
                self.told_cancelled.add(duty.id)

    async def work(self, process: Process) -> None:
        """Run what is scheduled or left behind."""
        functions = {"charge": self.function(process)}
        await process.store.work({}, tasks=functions, ttl=self._simulation.ttl, poll=2.0)

    def _stored(self, duty: Duty) -> Fetched:
        return self._simulation.peek("task", duty.id, all_documents=True)

    def judge(self, duty: Duty) -> None:
        """One result at most, and it is the one that everybody got."""
        simulation = self._simulation
        stored = self._stored(duty)
        simulation.require(stored.head.status in FINISHED, f"{duty.id} is {stored.head}")
        simulation.require(stored.head.lease is None, f"{duty.id} is still held: {stored.head}")
        if duty.id in self.told_cancelled and not duty.retried:
            simulation.require(
                stored.head.status == "cancelled" and "result" not in stored.documents,
                f"{duty.id} was cancelled, and is {stored.head}",
            )
        result = stored.documents.get("result")
        if stored.head.status == "completed" and result is not None:
            simulation.require(result.version == 1, f"{duty.id} committed {result.version} results")
            value = decode(result.json)["value"]
            told = self.results.get(duty.id, value)
            simulation.require(told == value, f"{duty.id}: stored {value!r}, told {told!r}")
        else:
            simulation.require(duty.id not in self.results, f"{duty.id} lost its result: {stored}")


async def tasks(simulation: Simulation) -> None:
    """Two or three replicas deliver, one or two work; in the end nothing is left undone."""
    plan = simulation.plan
    duties = Duties(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        simulation.job(process, duties.deliver(process, plan.randint(2, 3)), "delivers")
    if any(duty.cancelled or duty.retried for duty in duties.duties):
        process = simulation.process()
        simulation.job(process, duties.meddle(process), "meddles")
    for _ in range(plan.randint(1, 2)):
        simulation.service(duties.work, "works")
    await simulation.storm(60.0, calm=200.0)

    healthy = simulation.process()
    simulation.service(duties.work, "works")
    for duty in duties.duties:
        if duty.scheduled is None:
            await redeliver(simulation, duties, healthy, duty)
        elif duty.id not in duties.recorded:
            await duties.ask(healthy, duty, None)  # nobody was told that it is recorded
    for duty in duties.duties:
        done = partial(finished, simulation, duty)
        await simulation.until(done, 60.0, f"{duty.id} is not finished")
        duties.judge(duty)
    simulation.judge_everybody()


async def redeliver(simulation: Simulation, duties: Duties, healthy: Process, duty: Duty) -> None:
    """Deliver until it has come to its end; a healthy store and process need few tries."""
    for _ in range(ATTEMPTS + 1):
        if await duties.ask(healthy, duty, None):
            return
    simulation.violated(f"{duty.id} comes to no end")


def finished(simulation: Simulation, duty: Duty) -> bool:
    return simulation.peek("task", duty.id).head.status in FINISHED
