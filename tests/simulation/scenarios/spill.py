"""Processes of a machine append to a store that fails: what they keep is stored once, in order.

In order means: whoever begins to append after another was answered, be it by another process and
be it that the turn is only kept, stands behind it.
"""

from __future__ import annotations

import tempfile

from simulation.history import STORED, Attempt, History
from simulation.simulation import Process, Simulation
from stateward.errors import StoreUnavailable
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm

THREADS, USER = ("t-1", "t-2"), "u-1"


class Talk:
    """What the processes do, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.turns = {id: History(simulation, id) for id in THREADS}
        self.writers: dict[str, list[str]] = {}  # by process, writer and thread: marks in order
        self._kept: list[Attempt] = []

    async def talk(self, process: Process, writer: int, count: int) -> None:
        """One turn after the other, now in this thread, now in that one; and look at them."""
        for number in range(count):
            id = process.chance.choice(THREADS)
            thread = process.store.thread(id, USER)
            mark = f"{process.name}.{writer}.{number}"
            mine = self.writers.setdefault(f"{process.name}.{writer} {id}", [])
            with self.turns[id].writing(mark) as attempt:
                async with process.patience():
                    appended = await thread.append({"turn": mark, "part": 1}, {"turn": mark})
            if attempt.told == STORED:
                self._simulation.require(appended.status != "dropped", f"{mark} is dropped")
                mine.append(mark)
                if appended.status == "spilled":
                    self._kept.append(attempt)
            if process.chance.random() < 0.3:
                await self._look(process, id, list(mine))
            await process.pause(1.5)

    async def _look(self, process: Process, id: str, mine: list[str]) -> None:
        """A process always sees what it was told is stored or kept."""
        try:
            window = await process.store.thread(id, USER).load()
        except StoreUnavailable:
            return
        seen = {message["turn"] for message in window.messages}
        missing = [mark for mark in mine if mark not in seen]
        self._simulation.require(not missing, f"{process.name} does not see its own {missing}")

    def judge(self, id: str, found: list[str]) -> None:
        if not self._simulation.faults.clock_is_true:
            for attempt in self._kept:
                attempt.ended = None  # processes agree on an order by their common clock
        self.turns[id].judge(found)
        for writer, marks in self.writers.items():
            if writer.endswith(id):
                stands = [mark for mark in found if mark in marks]
                self._simulation.require(stands == marks, f"{writer} wrote {marks}, not {stands}")


async def spill(simulation: Simulation) -> None:
    """Two or three of them write; whoever dies leaves a file, and the last one adopts them all."""
    with tempfile.TemporaryDirectory(prefix="stateward-simulation-") as folder:
        simulation.store_options = {
            "policy": Policy(breaker_seconds=simulation.plan.choice((0.2, 1.0, 3.0))),
            "spill": Spill(folder),
            "alarm": Alarm(suppressed=1_000_000, slow=1e8),
            "identity": "the simulated store",
        }
        simulation.skew = simulation.plan.uniform(-0.5, 0.5)
        await _spill(simulation)


async def _spill(simulation: Simulation) -> None:
    plan, talk = simulation.plan, Talk(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for writer in range(plan.randint(1, 3)):
            simulation.job(process, talk.talk(process, writer, plan.randint(6, 12)), "talks")
    await simulation.storm(40.0)

    healthy = simulation.process()
    await healthy.store.health()

    def nothing_waits() -> bool:
        running = [p for p in simulation.processes if p.alive and not p.retired]
        return not any(process.store._layered.stacks[0].backlog.depth for process in running)

    await simulation.until(nothing_waits, 60.0, "turns still wait for the store")
    for id in THREADS:
        messages = (await healthy.store.thread(id, USER).load()).messages
        found = [message["turn"] for message in messages]
        simulation.require(found[::2] == found[1::2], f"a turn of {id} is split: {found}")
        talk.judge(id, found[::2])
