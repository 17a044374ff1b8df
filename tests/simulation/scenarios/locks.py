"""Replicas lead one conversation in turn: whoever was superseded writes nothing any more."""

from __future__ import annotations

from simulation.history import History
from simulation.simulation import Process, Simulation
from stateward.errors import LeaseHeld, LeaseLost, StoreUnavailable
from stateward.layers.leases.held import HeldLease
from stateward.ops import Entity

THREAD = "t-1"
LOCK, LEADER = "inventory", "scheduler"


class Contest:
    """What the processes do while they lead, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.writes = History(simulation, "the led thread")
        self.held_by: dict[tuple[Entity, int], str] = {}

    async def lead(self, process: Process, count: int) -> None:
        """Lead the conversation, and write with the lease as fence."""
        thread = process.store.thread(THREAD)
        for number in range(count):
            wait = process.chance.choice((0, 3.0, None))
            try:
                async with (
                    process.patience(),
                    thread.lead(ttl=self._simulation.ttl, wait=wait) as lease,
                ):
                    self._entered(process, lease)
                    for write in range(process.chance.randint(1, 3)):
                        mark = f"{process.name}.{number}.{write}"
                        await self._write(process, lease, mark)
                        await process.pause(self._simulation.ttl)
            except (LeaseLost, LeaseHeld, StoreUnavailable, TimeoutError) as error:
                self._not_in_calm_weather(error)
            await process.pause(2.0)

    async def _write(self, process: Process, lease: HeldLease, mark: str) -> None:
        thread = process.store.thread(THREAD)
        message = {"mark": mark, "token": lease.token}
        refused: LeaseLost | None = None
        with self.writes.writing(mark, LeaseLost):
            try:
                await thread.append(message, fence=lease)
            except LeaseLost as error:
                refused = error
                raise
        if refused is not None:
            raise refused
        self._holds(lease)

    async def exclude(self, process: Process, count: int) -> None:
        """Hold a lock, or lead a name, longer than its ttl."""
        for _ in range(count):
            store, ttl = process.store, self._simulation.ttl
            one = process.chance.random() < 0.5
            lock = store.lock(LOCK, ttl=ttl) if one else store.elect(LEADER, ttl=ttl)
            try:
                async with process.patience(), lock as lease:
                    self._entered(process, lease)
                    for _ in range(process.chance.randint(1, 4)):
                        await process.pause(ttl)
                        self._holds(lease)
            except (LeaseLost, StoreUnavailable, TimeoutError) as error:
                self._not_in_calm_weather(error)
            await process.pause(2.0)

    def _entered(self, process: Process, lease: HeldLease) -> None:
        other = self.held_by.setdefault((lease.entity, lease.token), process.name)
        self._simulation.require(
            other == process.name, f"{other} and {process.name} have the same token {lease.token}"
        )
        self._holds(lease)

    def _holds(self, lease: HeldLease) -> None:
        """While a holder's own check passes, the store has granted the lease to nobody else."""
        try:
            lease.check()
        except LeaseLost:
            return
        simulation = self._simulation
        if simulation.faults.clock_is_true:
            granted = simulation.peek(lease.entity.kind, lease.entity.id).head.lease
            simulation.require(
                granted is not None and granted.token == lease.token,
                f"the holder of {lease.token} believes in its lease, the store says {granted}",
            )

    def _not_in_calm_weather(self, error: Exception) -> None:
        lost = isinstance(error, LeaseLost) and self._simulation.faults.calm
        self._simulation.require(not lost, f"a lease was lost though nothing went wrong: {error}")


async def locks(simulation: Simulation) -> None:
    """Two or three replicas; in the end a healthy one gets every lease soon."""
    plan = simulation.plan
    contest = Contest(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        simulation.job(process, contest.lead(process, plan.randint(4, 8)), "leads")
        if plan.random() < 0.7:
            simulation.job(process, contest.exclude(process, plan.randint(2, 4)), "excludes")
    await simulation.storm(60.0, calm=200.0)

    healthy = simulation.process().store
    ttl = simulation.ttl
    for lock in (
        healthy.thread(THREAD).lead(ttl=ttl, wait=2 * ttl),
        healthy.lock(LOCK, ttl=ttl, wait=2 * ttl),
        healthy.elect(LEADER, ttl=ttl, wait=2 * ttl),
    ):
        try:
            async with lock:
                pass
        except LeaseHeld as error:
            simulation.violated(f"a lease is held by nobody who lives: {error}")
    messages = (await healthy.thread(THREAD).load()).messages
    contest.writes.judge([message["mark"] for message in messages])
    tokens = [message["token"] for message in messages]
    simulation.require(tokens == sorted(tokens), f"a superseded holder wrote: {tokens}")
