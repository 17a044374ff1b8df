"""One run: simulated processes over one shared store, and what goes wrong between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from simulation import faults as kinds
from simulation.faults import LATEST, DrawnFaults
from simulation.gate import Gate
from simulation.loop import START, Strand, VirtualLoop, context_of
from simulation.world import SimulatedWorld
from stateward.engine import Capabilities, Engine
from stateward.engines.memory.model import Model
from stateward.errors import StoreMisused
from stateward.layers.policy import Policy
from stateward.ops import (
    Acquire,
    Applied,
    Commit,
    Drop,
    Entity,
    Fence,
    Fetch,
    Fetched,
    Log,
    Op,
    Outcome,
    Restore,
)
from stateward.store import Store

EPOCH = 1_700_000_000.0  # what the clocks show when a run begins
NAMESPACE = "simulated"
HOUR = 3600.0

Role = Callable[["Process"], Coroutine[Any, Any, None]]


class Violation(AssertionError):
    """A promise was broken. The message says which, with the seed that shows it again."""


class Process:
    """A replica: the real store and all its layers, with an event loop and a lease thread."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.alive = True
        self.retired = False
        self.tasks: list[asyncio.Task[Any]] = []
        self._simulation = simulation
        self.main = Strand(name)
        self.beside = Strand(f"{name} leases")
        self.beside.main = self.main
        self.chance = simulation.chance(f"process {name}")
        skew = self.chance.uniform(-0.5, 0.5) if simulation.skew is None else simulation.skew
        self.world = SimulatedWorld(
            name,
            simulation.loop,
            lambda: simulation.now() + skew,
            simulation.chance(f"world {name}"),
            self.beside,
            lambda: simulation.over,
        )
        self.gate = Gate(simulation, self, simulation.capabilities)
        self.store = Store(
            simulation.engine_of(self),
            namespace=NAMESPACE,
            world=self.world,
            heartbeat=None,  # it would be in every history, and says nothing of state
            **simulation.options_of(self),
        )
        self._standstills = 0

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run this on the process's own event loop."""
        loop, context = self._simulation.loop, context_of(self.main)
        task = loop.create_task(work, name=f"{self.name} {name}", context=context)
        self.tasks.append(task)
        return task

    async def pause(self, most: float) -> None:
        """Let a random while pass."""
        await self.world.pause(most * self.chance.random())

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """What is inside may be cancelled, as by a caller that gives up; then `TimeoutError`."""
        faults = self._simulation.faults
        try:
            async with asyncio.timeout(faults.patience()) as timeout:
                yield
        finally:
            if timeout.expired():
                faults.note(kinds.IMPATIENCE)

    def retire(self, politely: bool) -> None:
        """Told to end: it closes its store, after its work was cancelled or while it goes on."""
        self.retired = True
        self._simulation.trace(self, "retires", politely)
        self._simulation.job(self, self._end(list(self.tasks), politely), "retires")
        self._simulation.died(self)

    async def _end(self, tasks: list[asyncio.Task[Any]], politely: bool) -> None:
        for task in tasks if politely else ():
            task.cancel()
        if politely and tasks:
            await asyncio.wait(tasks)
        await self.store.close()
        for task in tasks:
            task.cancel()

    def die(self) -> None:
        """From now on nothing of it runs, no `finally` either."""
        self.alive = False
        self.main.stop()
        self.beside.stop()
        self.store._layered.stacks[0].backlog.let_go()  # the operating system closes its files
        self._simulation.trace(self, "dies")
        self._simulation.died(self)

    def freeze(self, seconds: float) -> None:
        """Nothing of it runs for a while, as by SIGSTOP."""
        self._stand_still(seconds, "is frozen", self.main, self.beside)

    def hang(self, seconds: float) -> None:
        """Its event loop stands still for a while; its lease thread goes on."""
        self._stand_still(seconds, "hangs", self.main)

    def _stand_still(self, seconds: float, how: str, *strands: Strand) -> None:
        if not self.alive:
            return
        for strand in strands:
            strand.stop()
        self._standstills += 1
        self._simulation.trace(self, how, seconds)
        self._simulation.loop.call_later(
            seconds, self.go_on, self._standstills, context=context_of(None)
        )

    def go_on(self, standstill: int | None = None) -> None:
        """The end of the last standstill, or of any."""
        if self.alive and standstill in (None, self._standstills):
            self._simulation.loop.resume(self.main)
            self._simulation.loop.resume(self.beside)


class Simulation:
    """The shared store, the clock, the processes, and the faults of one seed."""

    option = ""  # of `python -m simulation`

    def __init__(
        self,
        seed: int,
        *,
        model: Callable[[Random], Model] | None = None,
        trace: Callable[[str], object] | None = None,
        audited: bool = True,
    ) -> None:
        self.seed = seed
        self.loop = VirtualLoop(self.chance("order"))
        self.model = model(self.chance("model")) if model else Model()
        self.plan = self.chance("plan")  # what the scenario draws from
        self.ttl = self.plan.choice((2.0, 5.0))  # shorter and longer than a call may take
        self.faults = DrawnFaults(self.chance("faults"), ttl=self.ttl)
        self.capabilities = Capabilities(
            durable=True,
            shared=True,
            inline_reads=self.plan.random() < 0.3,
            parallel_batches=self.plan.choice((1, 1, 2)),
            batch=self.plan.choice((2, 8, 256)),
            page=self.plan.choice((2, 3, 5, 200)),
        )
        self.over = False
        self.skew: float | None = None  # of the clock that all processes of one machine share
        self.store_options: dict[str, Any] = {"policy": Policy(threads="raise")}
        self.processes: list[Process] = []
        self._jobs: list[tuple[Process, asyncio.Task[Any]]] = []
        self._services: list[tuple[Process, asyncio.Task[Any]]] = []
        self._roles: dict[str, Role] = {}
        self._names = 0
        self._sequence = 0
        self._clock_step = self._furthest_step = 0.0
        self._outage_until = self._silence_until = 0.0
        self._partitioned: dict[str, float] = {}
        self._watching: list[tuple[Entity, asyncio.Future[None]]] = []
        self.operations = 0  # how many were executed
        self._audited = audited
        self._applied: set[tuple[Entity, str]] = set()
        self._granted: dict[Entity, str] = {}  # the nonce of the last grant
        self.observe: Callable[[Op, Outcome], None] | None = None  # sees all that is executed
        self.violations: list[str] = []
        self._print = trace
        self._order = self.chance("batches")

    def chance(self, what: str) -> Random:
        """A source of chance of its own for each part, so that one does not disturb another."""
        return Random(f"{self.seed} {what}")

    # --- time -----------------------------------------------------------------------

    def now(self) -> float:
        """The store's clock, which a fault may have stepped."""
        return EPOCH + self.loop.time() - START + self._clock_step

    def sequence(self) -> int:
        """A number larger than all before: what happened before what."""
        self._sequence += 1
        return self._sequence

    async def pause(self, seconds: float) -> None:
        """Let virtual time pass for the scenario itself."""
        await asyncio.sleep(seconds)

    # --- processes ------------------------------------------------------------------

    def process(self) -> Process:
        """Start a new replica."""
        self._names += 1
        process = Process(self, f"p{self._names}")
        self.processes.append(process)
        return process

    def engine_of(self, process: Process) -> Engine:
        """How a process reaches the store."""
        return process.gate

    def options_of(self, process: Process) -> dict[str, Any]:
        """Of its store."""
        return self.store_options

    def job(self, process: Process, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Something that a process does and finishes; it handles the failures it expects."""
        self._jobs.append((process, process.start(work, name)))

    def service(self, role: Role, name: str) -> Process:
        """Start a process that does this for ever; if it dies, another one may follow it."""
        process = self.process()
        self._roles[process.name] = role
        self._services.append((process, process.start(role(process), name)))
        return process

    def died(self, process: Process) -> None:
        role = self._roles.get(process.name)
        if role is not None and self.faults.half():
            self.loop.call_later(
                self.faults.standstill(), self._follow, role, context=context_of(None)
            )

    def _follow(self, role: Role) -> None:
        if self.faults.on:
            self.service(role, "successor")

    async def storm(self, seconds: float, *, calm: float = 120.0) -> None:
        """Faults until every job is done or the time is up; then no more, and all must finish."""
        nemesis = self.loop.create_task(self.nemesis(), name="nemesis", context=context_of(None))
        await self.quiet(seconds)
        nemesis.cancel()
        self.heal()
        await self.pause(LATEST)  # what is still on its way arrives
        await self.quiet(calm)
        self.judge_everybody()

    async def quiet(self, within: float) -> bool:
        """Wait until every job is done or its process dead; False if the time was too short."""
        end = self.loop.time() + within
        while self.loop.time() < end:
            if not self._unfinished():
                return True
            await self.pause(0.5)
        return not self._unfinished()

    def _unfinished(self) -> list[str]:
        return [t.get_name() for p, t in self._jobs if p.alive and not t.done()]

    async def until(self, condition: Callable[[], bool], within: float, what: str) -> None:
        """Wait until this holds; that it never does is a violation."""
        end = self.loop.time() + within
        while not condition():
            if self.loop.time() >= end:
                self.violated(f"{within:g} s after everything was healed {what}")
                return
            await self.pause(1.0)

    # --- the store ------------------------------------------------------------------

    def serve(self, process: Process, ops: Sequence[Op]) -> list[Outcome]:
        """Execute a batch. Its operations are concurrent, so their order is anybody's guess."""
        order = list(range(len(ops)))
        if len(order) > 1:
            self._order.shuffle(order)
        outcomes: dict[int, Outcome] = {}
        for number in order:
            outcomes[number] = self.ask(ops[number])
            self.operations += 1
            if self._audited:
                self._audit(process, ops[number], outcomes[number])
            if self.observe is not None:
                self.observe(ops[number], outcomes[number])
            if self._print is not None:
                self.trace(process, "executes", ops[number], outcomes[number])
        self._wake(ops)
        return [outcomes[number] for number in range(len(ops))]

    def _audit(self, process: Process, op: Op, outcome: Outcome) -> None:
        """Whatever the scenario: no commit is applied twice, and none with a superseded lease."""
        if not isinstance(op, Commit) or type(outcome) is not Applied:
            return
        if isinstance(op.writes[0], Restore):
            self._granted.pop(op.entity, None)  # what is restored is held by nobody
        if isinstance(op.writes[0], Drop | Restore):
            return  # to drop what is not there, or to restore, is remembered by nobody
        self.require((op.entity, op.op) not in self._applied, f"applied a second time: {op}")
        self._applied.add((op.entity, op.op))
        for check in op.checks:
            if isinstance(check, Fence):
                holder = self._granted.get(op.entity)
                self.require(
                    holder == check.nonce,
                    f"{process.name} wrote with a lease that is {holder}'s: {op}",
                )
        for write in op.writes:
            if isinstance(write, Acquire):
                self._granted[op.entity] = write.nonce

    def ask(self, op: Op) -> Outcome:
        """Execute one operation, seen from outside: nothing goes wrong, nobody notices."""
        return self.model.execute([op], self.now())[0]

    def peek(self, kind: str, id: str, **parts: Any) -> Fetched:
        """What the store holds of one entity, seen from outside."""
        fetched = self.ask(Fetch(Entity(NAMESPACE, kind, id), **parts))
        assert isinstance(fetched, Fetched)
        return fetched

    def entries(self, kind: str, id: str) -> Fetched:
        """A whole log, seen from outside."""
        return self.peek(kind, id, log=Log(details=True), all_documents=True)

    def refuses(self, process: Process) -> bool:
        """Whether the store is out of reach for this process."""
        now = self.loop.time()
        return now < self._outage_until or now < self._partitioned.get(process.name, 0.0)

    def silence(self) -> float:
        """For how long the store answers nobody."""
        return max(0.0, self._silence_until - self.loop.time())

    def passed(self, cursors: Mapping[Entity, int]) -> bool:
        return self.model.passed(dict(cursors), self.now())

    def watch(self, cursors: Mapping[Entity, int], changed: asyncio.Future[None]) -> None:
        self._watching = [(e, f) for e, f in self._watching if not f.done()]
        self._watching.extend((entity, changed) for entity in cursors)

    def _wake(self, ops: Sequence[Op]) -> None:
        written = {op.entity for op in ops if isinstance(op, Commit)}
        for entity, changed in self._watching:
            if entity in written and not changed.done():
                changed.set_result(None)

    # --- what goes wrong ------------------------------------------------------------

    async def nemesis(self) -> None:
        """Faults that are not bound to an operation, until everything is healed."""
        while (moment := self.faults.next_moment()) is not None:
            await self.pause(moment[0])
            if not self.faults.on:
                return
            self._strike(moment[1])

    def _strike(self, kind: str) -> None:
        living = [process for process in self.processes if process.alive]
        if not living:
            return
        victim = living[self.faults.choose(len(living))]
        seconds = self.faults.standstill()
        now = self.loop.time()
        if kind == kinds.RETIRE:
            if victim.retired:
                return
            victim.retire(self.faults.half())
        elif kind == kinds.KILL:
            if not self.faults.deaths_left:
                return
            self.faults.deaths_left -= 1
            victim.die()
        elif kind == kinds.FREEZE:
            victim.freeze(seconds)
        elif kind == kinds.HANG:
            victim.hang(seconds)
        elif kind == kinds.OUTAGE:
            self.cut_off(seconds)
        elif kind == kinds.SILENCE:
            self._silence_until = now + min(seconds, LATEST - 1)
        elif kind == kinds.PARTITION:
            self._partitioned[victim.name] = now + seconds
        else:
            self._clock_step += HOUR if kind == kinds.CLOCK_FORWARD else -HOUR
            self._furthest_step = max(self._furthest_step, self._clock_step)
        self.faults.note(kind)
        self.trace(victim, "nemesis", kind, seconds)

    def cut_off(self, seconds: float) -> None:
        """The store refuses everybody for a while."""
        self._outage_until = self.loop.time() + seconds

    def heal(self) -> None:
        """No fault any more: all reachable, everybody awake, the clock past all it has shown."""
        self.faults.on = False
        self._outage_until = self._silence_until = 0.0
        self._partitioned.clear()
        self._clock_step = self._furthest_step
        for process in self.processes:
            process.go_on()
        self.trace(None, "healed")

    # --- judging --------------------------------------------------------------------

    def violated(self, promise: str) -> None:
        """A promise is broken: the run ends here."""
        self.violations.append(promise)
        self.loop.halted = True

    def require(self, holds: bool, promise: str) -> None:
        if not holds:
            self.violated(promise)

    def judge_everybody(self) -> None:
        """No job failed in a way it does not handle, none hangs, no service ended."""
        for process, task in (*self._jobs, *self._services):
            if task.done() and not task.cancelled() and (error := task.exception()):
                if process.retired and isinstance(error, StoreMisused):
                    continue  # its store was closed under its hands
                self.violated(f"{task.get_name()} ended with {type(error).__name__}: {error}")
        if unfinished := self._unfinished():
            self.violated(f"still not done though all is well again: {', '.join(unfinished)}")
        for complaint in self.loop.complaints:
            self.violated(f"the event loop complains: {complaint}")

    def trace(self, process: Process | None, what: str, *details: object) -> None:
        """Write down what happens, if somebody wants to read it."""
        if self._print is not None:
            who = process.name if process is not None else "-"
            said = " ".join(str(detail) for detail in details)
            self._print(f"{self.loop.time() - START:10.4f} {who:>4} {what} {said}")

    def dispose(self) -> None:
        """Nothing that happens from here on matters."""
        self.over = True
        self.faults.on = False
        for process in self.processes:
            self.loop.resume(process.main)
            self.loop.resume(process.beside)
        self.loop.dispose()
