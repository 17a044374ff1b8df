"""Workflows drawn from a seed: what they do, and what their journal must say afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from msgspec import Struct

from simulation.simulation import Process, Simulation
from stateward.codec import decode
from stateward.errors import Permanent
from stateward.ops import Entry
from stateward.state.run import Run
from stateward.state.work import idempotency_key

STEP, TWINS, WAIT, TIMED_WAIT, SLEEP, DOOM = "step", "twins", "wait", "timed wait", "sleep", "doom"
GO, MAYBE = "go", "maybe"  # signals: the first kind comes for sure, the other perhaps
KIND, USER = "refund", "u-1"
MACHINE = {"new": ("review",), "review": ("approved", "new"), "approved": ("review",)}
SOON = 0.001  # seconds by which a clock may be read wrongly


class Instruction(Struct, frozen=True, array_like=True):
    """One thing that a workflow does."""

    what: str
    name: str
    seconds: float


class Program(Struct, frozen=True):
    """One workflow: what it does, and which signals are sent to it."""

    id: str
    instructions: list[Instruction]
    signals: list[tuple[str, str]]  # name and key

    @property
    def doomed(self) -> bool:
        return any(instruction.what == DOOM for instruction in self.instructions)


def draw(plan: Random, id: str) -> Program:
    """A program of a few instructions."""
    kinds = (STEP, STEP, TWINS, WAIT, WAIT, TIMED_WAIT, SLEEP)
    drawn = [plan.choice(kinds) for _ in range(plan.randint(2, 7))]
    instructions = [
        Instruction(what, f"{what} {number}", round(plan.uniform(0.5, 9.0), 3))
        for number, what in enumerate(drawn)
    ]
    if plan.random() < 0.15:
        instructions.append(Instruction(DOOM, "doom", 0.0))
    signals = [(GO, f"go-{number}") for number in range(drawn.count(WAIT))]
    perhaps = [(MAYBE, f"maybe-{number}") for number in range(drawn.count(TIMED_WAIT))]
    signals += [signal for signal in perhaps if plan.random() < 0.5]
    return Program(id, instructions, signals)


def takes_checkpoints(program: list[Any]) -> bool:
    """Whether it takes one after each instruction: every other program."""
    return len(program) % 2 == 0


def _id(run: Run, name: str) -> str:
    """The id of what was asked for last under this name."""
    return run._names.latest(name)


class Interpreter:
    """Carries programs out, on any process, and watches what must not happen."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._keys: dict[str, tuple[str, str]] = {}  # whose an idempotency key is
        self.progress: Counter[str] = Counter()  # by workflow: what a driver was told is saved
        self._effects = 0

    async def carry_out(self, process: Process, run: Run) -> None:
        """The handler of the workflow."""
        require = self._simulation.require
        require(run.user == USER, f"the workflow {run.id} of {USER} is driven as {run.user}'s")
        lease = self._simulation.peek("workflow", run.id).head.lease
        drives = lease is not None and lease.holder == process.name  # or it was frozen as it began
        if drives and self._simulation.faults.clock_is_true:
            saved = run.state.get("done", 0)
            require(saved >= self.progress[run.id], f"{run.id} forgot its state {self.progress}")
        program = run.input["program"]
        results: list[Any] = run.checkpointed or []
        for number, line in enumerate(program[len(results) :], len(results) + 1):
            results.append(await self._one(process, run, Instruction(*line)))
            if takes_checkpoints(program):
                await run.checkpoint(results)
            if number > run.state.get("done", 0) and process.chance.random() < 0.5:
                await run.save({"done": number})
                if run.status == "active":  # a replay of what completed stores nothing
                    self.progress[run.id] = max(self.progress[run.id], number)
        await run.step("report", lambda: results)

    async def replay(self, run: Run) -> list[Any]:
        """The answers of a finished workflow."""
        program = run.input["program"]
        results: list[Any] = run.checkpointed or []
        done = len(program) if takes_checkpoints(program) else 0
        require = self._simulation.require
        require(len(results) == done, f"{run.id} took a checkpoint of {results} of {program}")
        results += [await self._one(None, run, Instruction(*line)) for line in program[done:]]
        reported = await run.step("report", lambda: ["never reported"])
        require(reported == results, f"{run.id}: {results} is not {reported}")
        return results

    async def _one(self, process: Process | None, run: Run, instruction: Instruction) -> Any:
        what, name, seconds = instruction.what, instruction.name, instruction.seconds
        if what == STEP:
            first = await self._step(process, run, "again", 1.0)  # a name that comes more than once
            return [first, await self._step(process, run, name, seconds)]
        if what == TWINS:
            both = (self._step(process, run, f"{name} {twin}", seconds) for twin in ("a", "b"))
            return list(await asyncio.gather(*both))
        if what == WAIT:
            return await run.wait(GO)
        if what == TIMED_WAIT:
            try:
                return await run.wait(MAYBE, timeout=seconds)
            except TimeoutError:
                self._not_early(run, _id(run, f"wait {MAYBE}"), seconds)
                return "nothing came"
        if what == SLEEP:
            await run.sleep(seconds)
            self._not_early(run, _id(run, "sleep"), seconds)
            return "slept"
        return await run.step(name, self._doom)

    async def _step(self, process: Process | None, run: Run, name: str, seconds: float) -> Any:
        attempt = 0

        async def effect() -> str:
            nonlocal attempt
            attempt += 1
            if process is None:
                self._simulation.violated(f"the replay of {run.id} runs {name} again")
                return "never"
            self._begins(run, name)
            self._effects += 1
            result = f"{name} effect {self._effects}"
            await process.pause(seconds)
            if attempt < 3 and process.chance.random() < 0.2:
                raise ValueError(f"{result} fails")
            if process.chance.random() < 0.2:
                await process.store.shared("effects").patch({name: result})
            return result

        return await run.step(name, effect, retries=2)

    def _begins(self, run: Run, name: str) -> None:
        """An effect begins: it must not be recorded yet, and it must have its own key."""
        key = idempotency_key()
        simulation = self._simulation
        owner = self._keys.setdefault(key, (run.id, name))
        simulation.require(owner == (run.id, name), f"{name} and {owner} share a key")
        if not simulation.faults.clock_is_true or name == "again":
            return  # a clock that jumps ends leases early; then only the record is safe
        keys = [entry.key or "" for entry in simulation.entries("workflow", run.id).entries]
        recorded = any(key.startswith(f"step:{name}#") for key in keys)
        simulation.require(not recorded, f"{run.id} ran {name} again after its record")

    def _not_early(self, run: Run, id: str, seconds: float) -> None:
        """A wait or a sleep has taken all its time, by the store's own clock."""
        begun = [
            entry.at
            for entry in self._simulation.entries("workflow", run.id).entries
            if decode(entry.body).get("begun") == id
        ]
        if self._simulation.faults.clock_is_true:
            early = begun[0] + seconds - self._simulation.now()
            self._simulation.require(early < SOON, f"{id} of {run.id} ended {early:.3f} s early")

    def _doom(self) -> None:
        raise Permanent("this workflow is doomed")


def judge(simulation: Simulation, program: Program) -> None:
    """What the journal of a finished workflow says."""
    stored = simulation.entries("workflow", program.id)
    require = simulation.require
    wanted = "failed" if program.doomed else "completed"
    require(stored.head.status == wanted, f"{program.id} is {stored.head.status!r}, not {wanted}")
    records = [(entry, decode(entry.body)) for entry in stored.entries]
    for what in ("step", "wait", "begun"):
        counts = Counter(record[what] for _, record in records if what in record)
        twice = [id for id, count in counts.items() if count > 1]
        require(not twice, f"{program.id} recorded {twice} more than once")
    _judge_signals(simulation, program, records)
    places = [record["transition"] for _, record in records if "transition" in record]
    at = "new"
    for was, to in places:
        require(was == at and to in MACHINE[was], f"{program.id} moved {places}")
        at = to
    stands = decode(stored.documents["step"].json)["at"]
    require(stands == at, f"{program.id} stands at {stands!r} after {places}")


def _judge_signals(
    simulation: Simulation, program: Program, records: list[tuple[Entry, dict[str, Any]]]
) -> None:
    """Every signal is there once and was taken once, the oldest first."""
    require = simulation.require
    sent = Counter(record["value"] for _, record in records if "signal" in record)
    require(all(count == 1 for count in sent.values()), f"{program.id} has a signal twice: {sent}")
    for name in (GO, MAYBE):
        came = [entry.seq for entry, record in records if record.get("signal") == name]
        waits = [r for _, r in records if r.get("wait", "").startswith(f"wait {name}#")]
        taken = [record["taken"] for record in waits if "taken" in record]
        require(taken == came[: len(taken)], f"{program.id} took {taken} of {name!r} at {came}")
        if name == GO and not program.doomed:
            require(taken == came, f"{program.id} never took {came[len(taken) :]} of {name!r}")
    for name, key in program.signals:
        late = name == MAYBE and key not in sent  # it came when all was over
        require(late or program.doomed or key in sent, f"the signal {key} of {program.id} is lost")
