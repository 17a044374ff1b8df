"""A program run in the simulation, with one thing going wrong at one call of whoever drives it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, NoReturn

from msgspec import Struct

from simulation.faults import DEATH_AFTER, DEATH_BEFORE, LOST, DrawnFaults, Fate
from simulation.flows import Signal, Source
from simulation.loop import GetsNowhere
from simulation.runner import quiet_logs
from simulation.simulation import Process, Simulation, Violation
from stateward.codec import decode, encode
from stateward.errors import InvalidInput, LeaseLost, Permanent, StoreUnavailable, WorkflowFinished
from stateward.ops import List, Op
from stateward.state.run import Run

KIND, ID = "flow", "w"
SHORT, LONG = "short outage", "long outage"
OUTAGES = {SHORT: 1.0, LONG: 8.0}  # one that retries outlast, and one that outlasts the lease
TROUBLES = (DEATH_BEFORE, DEATH_AFTER, LOST, SHORT, LONG)
SOON = 0.001  # seconds by which a clock may be read wrongly


class Declined(Exception):
    """A failure of the application."""


class Abort(BaseException):
    """A failure that its author did not want to be caught by `except Exception`."""


FAILURES = (Declined, Permanent, ExceptionGroup, Abort, TimeoutError, InvalidInput)
MACHINE = {"a": ["b"], "b": ["a"], "nowhere": []}


class Trouble(Struct, frozen=True):
    """What goes wrong, at which call of the drivers; the calls are counted from 0."""

    kind: str
    call: int


class Ending(Struct, frozen=True):
    """How a workflow ended: its status, its error if it failed, and what its code returns."""

    status: str
    error: str | None
    out: str | None


class PlannedFaults(DrawnFaults):
    """Nothing goes wrong but what is planned."""

    def __init__(self, simulation: Simulation, plan: Iterable[Trouble]) -> None:
        super().__init__(simulation.chance("faults"), ttl=simulation.ttl)
        self.rates = dict.fromkeys(self.rates, 0.0)
        self.plan = {trouble.call: trouble.kind for trouble in plan}
        self.drivers: set[str] = set()
        self.calls = 0
        self._simulation = simulation
        self._delays = simulation.chance("delays")

    def fate(self, ops: Sequence[Op], *, inline: bool, sender: str) -> Fate:
        there, back = 0.004 * self._delays.random(), 0.004 * self._delays.random()
        looks = all(isinstance(op, List) for op in ops)
        if sender not in self.drivers or looks or not self.on:
            return Fate(None, there, back)
        kind = self.plan.get(self.calls)
        self.calls += 1
        if kind is not None:
            self.note(kind)
        if kind in OUTAGES:
            self._simulation.cut_off(OUTAGES[kind])
            kind = None
        return Fate(kind, there, back)


class Desk:
    """What the code of a program calls, and the judge of what it is answered."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.runs: Counter[str] = Counter()  # how often each effect was begun
        self.done: defaultdict[str, set[int]] = defaultdict(
            set
        )  # the runs that it came to its end in
        self._asked: dict[str, float] = {}  # when a sleep was first asked for
        self.replaying = False

    def at(self, process: Process) -> DeskOfProcess:
        return DeskOfProcess(self, process)

    # --- what is judged -------------------------------------------------------------

    def begins(self, process: Process, name: str, step: str, attempts: int) -> int:
        """An effect begins: not after its record, nor beside another driver, nor without need."""
        require = self._simulation.require
        stored = self._simulation.entries("workflow", ID)
        recorded = [decode(entry.body).get("step") for entry in stored.entries]
        require(not self.replaying, f"the replay of what has ended runs {name}")
        require(f"{step}#1" not in recorded, f"{name} is run again after its record")
        lease = stored.head.lease
        require(
            lease is not None and lease.holder == process.name,
            f"{process.name} runs {name} though the lease is {lease}",
        )
        need = attempts > 1 or not self.runs[name] or self._simulation.faults.fired
        require(bool(need), f"{name} is run again though nothing went wrong")
        self.runs[name] += 1
        return self.runs[name]

    def agrees(self, name: str, before: str, now: str) -> None:
        """The code has seen what it had seen when this was recorded."""
        self._simulation.require(
            before == now, f"{name} was recorded having seen {before}, the code now has seen {now}"
        )

    def slept(self, label: str, seconds: float) -> None:
        early = self._asked[label] + seconds - self._simulation.now()
        self._simulation.require(
            self.replaying or early < SOON, f"{label} ended {early:.3f} s early"
        )

    def asked(self, label: str) -> None:
        self._asked.setdefault(label, self._simulation.now())

    def until(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self._simulation.now() + seconds, UTC)


class DeskOfProcess:
    """The desk, as the code that runs in one process sees it."""

    def __init__(self, desk: Desk, process: Process) -> None:
        self._desk = desk
        self._process = process

    async def step(
        self,
        run: Run,
        name: str,
        out: list[Any],
        *,
        takes: float = 0.0,
        fails: int = 0,
        fickle: bool = False,
        how: str = "declined",
        retries: int = 0,
        jots: bool = False,
        acts: bool = False,
    ) -> str:
        desk, seen, attempts = self._desk, str(out), 0

        async def effect() -> dict[str, Any]:
            nonlocal attempts
            attempts += 1
            number = desk.begins(self._process, name, f"effect {name}" if acts else name, attempts)
            await asyncio.sleep(takes)
            if jots:
                await self._jot(name)
            if number % 2 if fickle else attempts <= fails:
                text = f"{name} seen {digest(seen)}"
                self.fail(how, f"{text} run {number}" if fickle else text)
            desk.done[name].add(number)
            return {"seen": seen, "run": number}

        try:
            if acts:
                value = await run.effect(name, effect, keyed=True, ttl=desk._simulation.ttl)
            else:
                value = await run.step(name, effect, retries=retries)
        except FAILURES as error:
            for text in leaves(error):
                if f"{name} seen " in text:
                    desk.agrees(name, text.strip("'").split()[2], digest(seen))
            raise
        desk.agrees(name, value["seen"], seen)
        return f"{name} {value['run']}" if fickle else name

    async def _jot(self, name: str) -> None:
        """Use the store within a step."""
        async with asyncio.TaskGroup() as group:
            for half in ("a", "b"):
                group.create_task(self._process.store.shared(f"jots {half}").patch({name: True}))

    async def sleep(
        self, run: Run, label: str, *, seconds: float | None = None, until: float | None = None
    ) -> None:
        self._desk.asked(label)
        if until is not None:
            await run.sleep(until=self._desk.until(until), name=label)
        else:
            await run.sleep(seconds, name=label)
        self._desk.slept(label, seconds or until or 0.0)

    def fail(self, how: str, text: str) -> NoReturn:
        if how == "cancelled":
            raise asyncio.CancelledError  # as of a task of its own that it has cancelled
        if how == "group":
            raise ExceptionGroup("several", [Declined(text), ExceptionGroup("", [KeyError(text)])])
        raise {"declined": Declined, "permanent": Permanent, "abort": Abort}[how](text)

    def caught(self, error: BaseException) -> str:
        """What the code goes on with: the class, and what it says."""
        if isinstance(error, TimeoutError):
            return "too late"
        return f"{type(error).__name__} {leaves(error)}"


def digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


def leaves(error: BaseException) -> list[str]:
    """The texts of an exception, or of all that a group holds."""
    if isinstance(error, BaseExceptionGroup):
        return [text for each in error.exceptions for text in leaves(each)]
    return ["too late" if isinstance(error, TimeoutError) else str(error)]


class Drive:
    """One run of a program, from its beginning to its end, by whoever lives."""

    def __init__(
        self,
        simulation: Simulation,
        source: Source,
        faults: PlannedFaults,
        workers: int,
        poll: float,
    ) -> None:
        self._simulation = simulation
        self._source = source
        self._faults = faults
        self._workers = workers
        self._poll = poll
        self._desk = Desk(simulation)
        names = {"asyncio": asyncio, "FAILURES": FAILURES, "Declined": Declined}
        names["InvalidInput"] = InvalidInput
        scope: dict[str, Any] = names | {"Permanent": Permanent, "Abort": Abort}
        exec(compile(source.text, "<flow>", "exec"), scope)
        self._flow = scope["flow"]
        self._returned: str | None = None  # by the last drive that came to its end
        self.ending: Ending | None = None

    async def carry_out(self) -> None:
        simulation = self._simulation
        for _ in range(self._workers):
            self._faults.drivers.add(simulation.service(self._work, "works").name)
        while not self._begun():  # whoever wants it begun does so again if nobody said that it is
            process = simulation.process()
            self._faults.drivers.add(process.name)
            simulation.job(process, self._begin(process), "begins")
            started = partial(self._begun, process)
            await simulation.until(started, 60.0, "the workflow is not begun")
        teller = simulation.process()
        for signal in self._source.signals:
            simulation.job(teller, self._tell(teller, signal), signal.name)
        await simulation.until(self._finished, 600.0, "the workflow is stranded")
        if not simulation.violations:
            await self._judge()

    def _begun(self, by: Process | None = None) -> bool:
        """Whether it is begun, or will not be by this process."""
        if self._simulation.peek("workflow", ID).head.exists:
            return True
        return by is not None and (not by.alive or by.tasks[0].done())

    def _finished(self) -> bool:
        return self._simulation.peek("workflow", ID).head.status in ("completed", "failed")

    async def _work(self, process: Process) -> None:
        desk = self._desk.at(process)
        await process.store.work(
            {KIND: lambda run: self._follow(run, desk)}, ttl=self._simulation.ttl, poll=self._poll
        )

    async def _follow(self, run: Run, desk: DeskOfProcess) -> None:
        out = encode(await self._flow(run, desk), "what is returned")
        if run.broken is None and not run.parked:  # else it is for another drive to say
            self._returned = out

    async def _begin(self, process: Process) -> None:
        desk = self._desk.at(process)
        try:
            options: Any = {"kind": KIND, "machine": MACHINE, "ttl": self._simulation.ttl}
            async with process.store.workflow(ID, **options) as run:
                await self._follow(run, desk)
        except (*FAILURES, StoreUnavailable, LeaseLost, WorkflowFinished, asyncio.CancelledError):
            pass  # what was let out is recorded; what only goes around is for others to go on with

    async def _tell(self, process: Process, signal: Signal) -> None:
        """Send a signal when its time has come, until it is taken."""
        workflow = process.store.workflow(ID)
        while not self._is_time(signal):
            if self._finished():
                return
            await process.world.pause(0.1)
        while True:
            try:
                await workflow.signal(signal.name, signal.name, key=signal.name)
            except StoreUnavailable:
                await process.world.pause(0.5)
                continue
            except WorkflowFinished:
                pass
            return

    def _is_time(self, signal: Signal) -> bool:
        if signal.comes == "at once":
            return True
        begun = [
            entry.at
            for entry in self._simulation.entries("workflow", ID).entries
            if decode(entry.body).get("begun") == f"wait {signal.name}#1"
        ]
        late = (signal.timeout or 0.0) + 0.05 if signal.comes == "late" else 0.0
        return bool(begun) and self._simulation.now() > begun[0] + late

    # --- the end --------------------------------------------------------------------

    async def _judge(self) -> None:
        simulation, require = self._simulation, self._simulation.require
        simulation.heal()
        await simulation.quiet(60.0)  # branches that were left behind end as well
        simulation.judge_everybody()
        stored = simulation.entries("workflow", ID)
        records = [decode(entry.body) for entry in stored.entries]
        distinct = [decode(body) for body in {entry.body for entry in stored.entries}]
        # One that was cut short while it was recorded may be recorded all the same.
        distinct = [each for each in distinct if not (each.get("failed") or {}).get("cut_short")]
        for what in ("step", "wait", "begun"):  # a failure may be told twice
            counts = Counter(record[what] for record in distinct if what in record)
            require(max(counts.values(), default=1) == 1, f"recorded more than once: {counts}")
        for record in records:
            if "value" in record and "step" in record and "transition" not in record:
                name, number = record["step"].rpartition("#")[0], record["value"]["run"]
                done = self._desk.done[name.removeprefix("effect ")]
                require(number in done, f"{record} is of no effect")
        head = stored.head
        require(head.lease is None, f"what has ended is still held: {head.lease}")
        reader = simulation.process()
        info = await reader.store.workflow(ID).info()
        assert info is not None
        error = "TimeoutError" if (info.error or "").startswith("TimeoutError") else info.error
        out = self._returned if info.status == "completed" else None
        if info.status == "completed":
            self._desk.replaying = True
            async with reader.store.workflow(ID, wait=0) as run:
                await self._follow(run, self._desk.at(reader))
            same = run.state == info.state or not self._source.in_order
            require(same, f"saved is {info.state}, not {run.state}")
            require(self._returned == out, f"replayed it gives {self._returned}, not {out}")
        self.ending = Ending(info.status, error, out)


def run_flow(
    source: Source,
    seed: int,
    plan: Sequence[Trouble] = (),
    *,
    workers: int = 2,
    poll: float = 3.0,
    trace: Callable[[str], object] | None = None,
) -> tuple[Ending, int]:
    """How it ends, and how many calls its drivers made; raises `Violation`."""
    simulation = Simulation(seed, trace=trace)
    faults = simulation.faults = PlannedFaults(simulation, plan)
    drive = Drive(simulation, source, faults, workers + len(plan), poll)
    cause: Exception | None = None
    with quiet_logs():
        try:
            simulation.loop.run(drive.carry_out())
        except GetsNowhere as error:
            simulation.violated(str(error))
        except Exception as error:
            simulation.violated(f"it failed with {type(error).__name__}: {error}")
            cause = error
        finally:
            simulation.dispose()
    if simulation.violations:
        raise Violation(told(source, seed, plan, simulation.violations[0])) from cause
    assert drive.ending is not None
    return drive.ending, faults.calls


def told(source: Source, seed: int, plan: Sequence[Trouble], what: str) -> str:
    """A violation, with the code that shows it."""
    troubles = (
        ", ".join(f"{each.kind} at call {each.call}" for each in plan) or "nothing goes wrong"
    )
    return f"{what}\n  seed {seed}; {troubles}; the workflow:\n\n{source.text}"


def troubles(calls: int, chance: Random, most: int | None) -> Iterator[Trouble]:
    """Everything that can go wrong at every call; at most so many of them, drawn."""
    every = [Trouble(kind, call) for call in range(calls) for kind in TROUBLES]
    yield from every if most is None or len(every) <= most else chance.sample(every, most)


def check(source: Source, seed: int, *, most: int | None = None) -> int:
    """Every trouble at every call: it ends as it does when nothing goes wrong. How many runs."""
    wanted, calls = run_flow(source, seed)
    done = 1
    for trouble in troubles(calls, Random(seed), most):
        ending, _ = run_flow(source, seed, (trouble,))
        done += 1
        if source.steady and ending != wanted:
            what = f"it ended as {ending}, without trouble as {wanted}"
            raise Violation(told(source, seed, (trouble,), what))
    return done
