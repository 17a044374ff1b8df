"""Agents publish to one journal: what it folds to is what was published, snapshots or not."""

from __future__ import annotations

from typing import Any

from simulation.history import History
from simulation.simulation import Process, Simulation
from stateward.errors import StateConflictError, StoreUnavailable, Truncated
from stateward.records import Folded
from stateward.state.journals import Journal

JOURNAL = "plan"


class Channel:
    """What the processes publish and fold, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.events = History(simulation, "the journal")
        self.keyed = [f"delivery {n}" for n in range(simulation.plan.randint(0, 2))]
        self.delivered: set[str] = set()
        self.folds: dict[int, list[str]] = {}
        # What has no snapshot of its reducer is gone once trimmed: either trims or old code.
        self.trims = simulation.plan.random() < 0.6
        self._reducers = (1,) if self.trims else (1, 2)

    def journal(self, process: Process) -> Journal:
        return process.store.journal(JOURNAL)

    async def publish(self, process: Process, writer: int, count: int) -> None:
        """Publish events, one or two at once, some decided on what was there."""
        journal = self.journal(process)
        for number in range(count):
            mark = f"{process.name}.{writer}.{number}"
            expect = None
            if process.chance.random() < 0.3:
                folded = await self.fold(process)
                expect = None if folded is None else folded.cursor
            with self.events.writing(mark, StateConflictError):
                async with process.patience():
                    await journal.append({"mark": mark}, expect=expect)
            await process.pause(1.0)

    async def deliver(self, process: Process) -> None:
        """The same events with the same keys, again and again."""
        for key in self.keyed * 2:
            try:
                await self.journal(process).append({"mark": key}, key=key)
            except StoreUnavailable:
                continue
            self.delivered.add(key)
            await process.pause(2.0)

    async def fold(self, process: Process, *, snapshot: bool = False) -> Folded | None:
        """Fold with the reducer of this process's release; None if the store failed."""
        journal = self.journal(process)
        version = process.chance.choice(self._reducers)
        fold = journal.snapshot if snapshot else journal.fold
        try:
            async with process.patience():
                folded = await fold(reduce, [], version=version)
        except (StoreUnavailable, TimeoutError):
            return None
        except Truncated as error:
            self._simulation.violated(f"events were trimmed that are in no snapshot: {error}")
            return None
        state: list[str] = folded.state
        before = self.folds.setdefault(folded.version, state)
        require = self._simulation.require
        require(before == state, f"version {folded.version} was {before} and now is {state}")
        require(len(state) == folded.version, f"version {folded.version} has the events {state}")
        return folded

    async def watch(self, process: Process, count: int) -> None:
        """Fold, now and then with a snapshot, and trim what the snapshot holds."""
        for _ in range(count):
            snapshot = process.chance.random() < 0.6
            folded = await self.fold(process, snapshot=snapshot)
            if folded is not None and snapshot and self.trims and process.chance.random() < 0.7:
                try:
                    await self.journal(process).trim(folded.cursor)
                except StoreUnavailable:
                    pass
            await process.pause(2.0)

    def judge(self, final: Folded) -> None:
        """Every fold ever seen is the beginning of the last one, and that one is complete."""
        require = self._simulation.require
        state: list[str] = final.state
        for version, seen in self.folds.items():
            require(seen == state[:version], f"version {version} was {seen}, in the end {state}")
        self.events.judge([mark for mark in state if mark not in self.keyed])
        for key in self.keyed:
            count = state.count(key)
            require(count <= 1, f"{key} is there {count} times")
            require(count == 1 or key not in self.delivered, f"{key} was acknowledged and is lost")


class Follower:
    """An agent that acts on what others publish; trimmed events it has to take from a fold."""

    def __init__(self, simulation: Simulation, channel: Channel) -> None:
        self._simulation = simulation
        self._channel = channel
        self.cursor = "0"
        self.seen: dict[int, str] = {}
        self._reader = 0

    async def follow(self, process: Process) -> None:
        self._reader += 1
        reader = self._reader
        while True:
            try:
                async for change in self._channel.journal(process).changes(after=self.cursor):
                    if reader != self._reader:
                        return
                    due = int(self.cursor.partition(".")[0]) + 1
                    self._simulation.require(change.version == due, f"{change} instead of {due}")
                    self.seen[change.version] = change.message["mark"]
                    self.cursor = str(change.cursor)
            except StoreUnavailable:
                await process.pause(1.0)
            except Truncated as error:
                if reader != self._reader:
                    return  # another reader has gone on from there
                self._simulation.require(self._channel.trims, f"nobody trims: {error}")
                self.cursor = str(error.base)


async def journals(simulation: Simulation) -> None:
    """Two or three replicas publish, fold, make snapshots and trim; one follows."""
    plan = simulation.plan
    channel = Channel(simulation)
    follower = Follower(simulation, channel)
    simulation.service(follower.follow, "follows")
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for writer in range(plan.randint(1, 2)):
            work = channel.publish(process, writer, plan.randint(4, 8))
            simulation.job(process, work, "publishes")
        simulation.job(process, channel.deliver(process), "delivers")
        simulation.job(process, channel.watch(process, plan.randint(4, 10)), "watches")
    await simulation.storm(40.0)

    healthy = simulation.process()
    final = await channel.fold(healthy)
    assert final is not None
    channel.judge(final)
    simulation.service(follower.follow, "follows")

    def caught_up() -> bool:
        return int(follower.cursor.partition(".")[0]) >= final.version

    await simulation.until(caught_up, 30.0, f"a feed stands at {follower.cursor}")
    for version, mark in follower.seen.items():
        simulation.require(
            final.state[version - 1] == mark, f"the feed gave {mark} as event {version}"
        )


def reduce(state: list[str], event: dict[str, Any]) -> list[str]:
    return [*state, event["mark"]]
