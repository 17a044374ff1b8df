"""Requests delivered again and again, each time with another answer: one is stored, all get it."""

from __future__ import annotations

import tempfile
from typing import Any

from simulation.simulation import Process, Simulation
from stateward.errors import LeaseHeld, LeaseLost, StoreUnavailable
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm
from stateward.records import Appended

THREADS, USER = ("t-1", "t-2"), "u-1"
KEPT = ("spilled", "stored")


class Requests:
    """What the processes deliver, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        self.alone = plan.random() < 0.3
        self.all = [
            (plan.choice(THREADS), f"request {number}") for number in range(plan.randint(3, 6))
        ]
        self.answers: dict[str, str] = {}  # by request, what is surely stored
        self.kept: dict[str, set[str]] = {}  # by request, what a caller was told is kept
        self._asked = 0

    async def deliver(self, process: Process, again: int) -> None:
        """Every request, in any order, more than once."""
        for thread, key in process.chance.sample(self.all * again, k=len(self.all) * again):
            try:
                async with process.patience():
                    await self.answer(process, thread, key, process.chance.choice((0, 3.0, 30.0)))
            except (LeaseHeld, LeaseLost, StoreUnavailable, TimeoutError):
                pass
            await process.pause(2.0)

    async def answer(self, process: Process, thread: str, key: str, wait: float) -> None:
        """One delivery, whose model says what no other says."""
        options: dict[str, Any] = {"alone": self.alone, "ttl": self._simulation.ttl, "wait": wait}
        async with process.store.thread(thread, USER).turn(key=key, last=4, **options) as turn:
            said = None
            if turn.answer is None:
                self._asked += 1
                mine = f"{key} answer {self._asked} of {process.name}"
                await process.pause(process.chance.choice((0.2, 2.0, 8.0)))
                question = {"role": "user", "turn": key, "answer": mine}
                said = await turn.store(question, {"role": "assistant", "turn": key} | question)
        assert turn.answer is not None
        self._note(key, turn.answer["answer"], said, turn.known)

    def _note(self, key: str, answer: str, said: Appended | None, known: bool) -> None:
        require = self._simulation.require
        if said is not None and said.status in KEPT:
            self.kept.setdefault(key, set()).add(answer)
        require(said is None or said.status != "dropped", f"{key} is dropped")
        surely = known if said is None else said.status != "spilled"
        if surely:
            first = self.answers.setdefault(key, answer)
            require(first == answer, f"{key}: one got {first!r}, another got {answer!r}")

    def judge(self, thread: str, messages: list[dict[str, str]]) -> None:
        """Every request that somebody was told of is there, whole, once, and as they were told."""
        require = self._simulation.require
        turns = [message["turn"] for message in messages]
        require(turns[::2] == turns[1::2], f"a turn of {thread} is split: {turns}")
        require(len(set(turns)) * 2 == len(turns), f"a request is stored twice: {turns}")
        stored = {message["turn"]: message["answer"] for message in messages[1::2]}
        for key in (key for place, key in self.all if place == thread):
            told, kept = self.answers.get(key), self.kept.get(key, set())
            require(told in (None, stored.get(key)), f"{key}: told {told!r}, not {stored.get(key)}")
            require(not kept or key in stored, f"{key} is lost: {kept}")


async def turns(simulation: Simulation) -> None:
    """Two or three replicas deliver the same requests; whoever dies leaves a spill to the next."""
    with tempfile.TemporaryDirectory(prefix="stateward-simulation-") as folder:
        simulation.store_options = {
            "policy": Policy(breaker_seconds=simulation.plan.choice((0.2, 1.0, 3.0))),
            "spill": Spill(folder),
            "alarm": Alarm(suppressed=1_000_000, slow=1e8),
            "identity": "the simulated store",
        }
        await _turns(simulation)


async def _turns(simulation: Simulation) -> None:
    plan, requests = simulation.plan, Requests(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for _ in range(plan.randint(1, 2)):
            simulation.job(process, requests.deliver(process, plan.randint(2, 3)), "delivers")
    await simulation.storm(60.0, calm=300.0)

    healthy = simulation.process()
    await healthy.store.health()

    def nothing_waits() -> bool:
        running = [p for p in simulation.processes if p.alive and not p.retired]
        return not any(process.store._layered.stacks[0].backlog.depth for process in running)

    await simulation.until(nothing_waits, 60.0, "turns still wait for the store")
    for thread, key in requests.all:  # once more, and nobody is waited for longer than a ttl
        await requests.answer(healthy, thread, key, 2 * simulation.ttl)
    for thread in THREADS:
        requests.judge(thread, (await healthy.store.thread(thread, USER).load()).messages)
    refused = [process.name for process in simulation.processes if process.store.counters.refused]
    simulation.require(not refused, f"a redelivery was taken for a loss by {refused}")
    simulation.judge_everybody()
