"""Live answers: written, read, resumed and stopped by replicas that die, hang and are cut off."""

from __future__ import annotations

import re
from contextlib import aclosing, suppress
from typing import Any

from simulation.simulation import Process, Simulation
from stateward.errors import LeaseHeld, LeaseLost, StoreUnavailable, TurnStopped

THREADS, USER = ("t-1", "t-2"), "u-1"
PART = re.compile(r"<(\d+):(\d+)>")
EXPECTED = (LeaseHeld, LeaseLost, StoreUnavailable, TimeoutError, TurnStopped)


def question(key: str) -> dict[str, Any]:
    return {"role": "user", "content": key}


class LiveRequests:
    """What the processes deliver, and what readers must see."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        plan = simulation.plan
        self.alone = plan.random() < 0.5
        self.all = [
            (plan.choice(THREADS), f"request {number}") for number in range(plan.randint(2, 5))
        ]
        self._attempts = 0

    async def deliver(self, process: Process) -> None:
        """Every request, in any order, more than once."""
        for thread, key in process.chance.sample(self.all * 2, k=len(self.all) * 2):
            try:
                async with process.patience():
                    await self.answer(process, thread, key, process.chance.choice((0, 3.0, 30.0)))
            except EXPECTED:
                pass
            await process.pause(2.0)

    async def answer(self, process: Process, thread: str, key: str, wait: float) -> None:
        """One delivery: its model says numbered parts, which no other says."""
        options: dict[str, Any] = {"alone": self.alone, "ttl": self._simulation.ttl, "wait": wait}
        conversation = process.store.thread(thread, USER)
        async with conversation.turn(
            key=key, question=question(key), live=True, last=9, **options
        ) as turn:
            if turn.answer is None:
                self._attempts += 1
                attempt = self._attempts
                for number in range(process.chance.randint(1, 12)):
                    await turn.write(f"<{attempt}:{number}>")
                    await process.pause(process.chance.choice((0.01, 0.1, 1.0)))
                await turn.store({"role": "assistant", "key": key, "content": turn.text})

    async def read(self, process: Process) -> None:
        """Read any request, resuming behind any event."""
        for _ in range(3):
            thread, key = process.chance.choice(self.all)
            conversation, text, cursor = process.store.thread(thread, USER), "", None
            for _ in range(4):
                try:
                    async with (
                        process.patience(),
                        aclosing(conversation.live(key, after=cursor, wait=2.0)) as events,
                    ):
                        async for event in events:
                            text = "" if event.kind == "begin" else text + event.text
                            cursor = event.cursor
                            self.check(key, text, event.message)
                            if process.chance.random() < 0.2:
                                break
                except (StoreUnavailable, TimeoutError):
                    pass
            await process.pause(2.0)

    def check(self, key: str, text: str, message: dict[str, Any] | None) -> None:
        """Check that a reader has the beginning of one answer, without gap or repeat."""
        require = self._simulation.require
        parts = PART.findall(text)
        whole = "".join(f"<{attempt}:{number}>" for attempt, number in parts) == text
        require(whole, f"{key}: {text!r} is torn")
        numbers = [int(number) for _, number in parts]
        require(numbers == list(range(len(parts))), f"{key}: a gap or a repeat in {text!r}")
        require(len({attempt for attempt, _ in parts}) < 2, f"{key}: two answers in {text!r}")
        stored = "" if message is None else message["content"]
        if parts and stored.startswith(f"<{parts[0][0]}:"):
            require(stored.startswith(text), f"{key}: read {text!r}, and {stored!r} was stored")

    async def stop(self, process: Process) -> None:
        """Stop any request, whether or not it is being answered."""
        for _ in range(4):
            await process.pause(process.chance.choice((3.0, 10.0)))
            thread, key = process.chance.choice(self.all)
            try:
                async with process.patience():
                    await process.store.thread(thread, USER).stop(key)
            except (StoreUnavailable, TimeoutError):
                pass

    def judge(self, thread: str, messages: list[dict[str, Any]]) -> None:
        """Every request is there, question and answer adjacent, and once."""
        require = self._simulation.require
        asked = [message["content"] for message in messages[::2]]
        answered = [message.get("key") for message in messages[1::2]]
        require(asked == answered, f"turns of {thread} are split: {messages}")
        wanted = sorted({key for place, key in self.all if place == thread})
        require(sorted(asked) == wanted, f"{thread} has {asked} instead of {wanted}")


async def live(simulation: Simulation) -> None:
    """Two or three replicas write, read and stop the same answers."""
    plan, requests = simulation.plan, LiveRequests(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        simulation.job(process, requests.deliver(process), "delivers")
        simulation.job(process, requests.read(process), "reads")
        if plan.random() < 0.4:
            simulation.job(process, requests.stop(process), "stops")
    await simulation.storm(60.0, calm=300.0)
    healthy = simulation.process()
    for thread, key in dict.fromkeys(requests.all):  # once more: nobody waits longer than a ttl
        for _ in range(5):  # a slow store may still refuse what cannot be spilled
            with suppress(StoreUnavailable):
                await requests.answer(healthy, thread, key, 3 * simulation.ttl)
                break
    for thread in THREADS:
        window = await healthy.store.thread(thread, USER).load()
        simulation.require(not window.unanswered, f"{thread}: {window.unanswered} still wait")
        requests.judge(thread, window.messages)
    for thread, key in requests.all:
        events = [event async for event in healthy.store.thread(thread, USER).live(key)]
        end = events[-1]
        simulation.require(end.status in ("done", "stopped"), f"{key} ended {end.status}")
        simulation.require(end.message is not None, f"{key} ended without its answer")
    simulation.judge_everybody()
