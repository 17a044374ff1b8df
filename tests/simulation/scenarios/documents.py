"""Replicas change the same documents: no update gets lost, none is applied twice."""

from __future__ import annotations

from functools import partial
from typing import Any

from simulation.history import History
from simulation.simulation import Process, Simulation
from stateward.errors import StateConflictError, StoreUnavailable
from stateward.state.users import Documents

NAMES = ("plan", "notes")
SWAPPED = "swapped"


class Writers:
    """What the processes do, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.histories = {name: History(simulation, f"the document {name!r}") for name in NAMES}
        self.swaps = History(simulation, f"the document {SWAPPED!r}")
        self._swapped_from: dict[int, str] = {}

    async def update(self, process: Process, writer: int, count: int) -> None:
        """Add marks to a list; the list is what everybody else adds to as well."""
        for number in range(count):
            name = process.chance.choice(NAMES)
            mark = f"{process.name}.{writer}.{number}"
            history = self.histories[name]
            with history.writing(mark, StateConflictError):
                async with process.patience():
                    change = partial(add, mark=mark)
                    changed = await self._documents(process, name).update(change, name)
                self._simulation.require(
                    mark in changed.value["marks"], f"the update {mark} did not return itself"
                )
            await process.pause(1.0)

    async def swap(self, process: Process, writer: int, count: int) -> None:
        """Put a new value where an expected version is: of those that race, one gets through."""
        documents = self._documents(process, SWAPPED)
        for number in range(count):
            mark = f"{process.name}.{writer}.{number}"
            try:
                base = await documents.get(SWAPPED)
            except StoreUnavailable:
                continue
            with self.swaps.writing(mark, StateConflictError):
                async with process.patience():
                    await documents.put(add(base.value, mark), SWAPPED, expect=base)
                other = self._swapped_from.setdefault(base.version, mark)
                self._simulation.require(
                    other == mark, f"{other} and {mark} both replaced version {base.version}"
                )
            await process.pause(1.0)

    async def read(self, process: Process, count: int) -> None:
        """What was acknowledged before a read began is in what it returns."""
        for _ in range(count):
            name = process.chance.choice(NAMES)
            before = self.histories[name].stored
            try:
                seen = marks((await self._documents(process, name).get(name)).value)
            except StoreUnavailable:
                continue
            missing = [mark for mark in before if mark not in seen]
            self._simulation.require(not missing, f"a read of {name!r} does not know {missing}")
            await process.pause(1.0)

    def _documents(self, process: Process, name: str) -> Documents:
        return process.store.shared(f"board of {name}")


async def documents(simulation: Simulation) -> None:
    """Two or three replicas, each with several writers."""
    plan = simulation.plan
    writers = Writers(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for writer in range(plan.randint(2, 3)):
            simulation.job(process, writers.update(process, writer, plan.randint(4, 9)), "updates")
        simulation.job(process, writers.swap(process, 9, plan.randint(3, 9)), "swaps")
        simulation.job(process, writers.read(process, 8), "reads")
    await simulation.storm(40.0)

    healthy = simulation.process().store
    for name, history in writers.histories.items():
        value = (await healthy.shared(f"board of {name}").get(name)).value
        history.judge(marks(value))
        counted = value.get("count", 0)
        simulation.require(counted == len(marks(value)), f"{name!r} counted {counted}: {value}")
    swapped = await healthy.shared(f"board of {SWAPPED}").get(SWAPPED)
    writers.swaps.judge(marks(swapped.value))


def add(value: dict[str, Any], mark: str) -> dict[str, Any]:
    return {"marks": [*marks(value), mark], "count": value.get("count", 0) + 1}


def marks(value: dict[str, Any]) -> list[str]:
    found: list[str] = value.get("marks", [])
    return found
