"""A user is erased while their agents write: nothing that was stored before comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from simulation.simulation import NAMESPACE, Process, Simulation
from stateward.context.compaction import Compaction
from stateward.errors import (
    ConversationDeletedError,
    EffectUnknown,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    StateConflictError,
    StatewardError,
    StoreUnavailable,
    Truncated,
    WorkflowFinished,
)
from stateward.ops import Append, Applied, Commit, List, Listed, Op, Outcome, Put, Replace
from stateward.state.run import Run

USER = "u-1"
MARK = re.compile(r"mark-\d+")
EXPECTED = (
    StoreUnavailable,
    ConversationDeletedError,
    StateConflictError,
    LeaseHeld,
    LeaseLost,
    WorkflowFinished,
    Truncated,
    EffectUnknown,
)

Deed = Callable[[Process], Coroutine[Any, Any, Any]]


class Life:
    """What the agents of one user do, and when each mark was first stored."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.first_stored: dict[str, int] = {}
        self.erased: int | None = None  # all that was stored before this must be gone
        self._marks = 0
        simulation.observe = self._observe
        self._deeds: tuple[Deed, ...] = (
            self._append,
            self._append,
            self._write,
            self._remember,
            self._update,
            self._publish,
            self._snapshot,
            self._run_task,
            self._drive,
            self._fork,
            self._take_a_turn,
            self._reply,
            self._reply,
            self._compact,
            self._act,
        )

    def mark(self) -> str:
        self._marks += 1
        return f"mark-{self._marks}"

    def _observe(self, op: Op, outcome: Outcome) -> None:
        if isinstance(op, Commit) and type(outcome) is Applied:
            for mark in MARK.findall("".join(texts(op))):
                self.first_stored.setdefault(mark, self._simulation.sequence())

    async def live(self, process: Process, count: int) -> None:
        """Whatever agents do, with marks in all that they store."""
        for _ in range(count):
            try:
                async with process.patience():
                    await process.chance.choice(self._deeds)(process)
            except (*EXPECTED, TimeoutError):
                pass
            await process.pause(1.0)

    async def _append(self, process: Process) -> None:
        await process.store.thread("t-1", USER).append({"text": self.mark()})

    async def _fork(self, process: Process) -> None:
        name = f"f-{process.chance.randint(1, 3)}"
        try:
            await process.store.thread("t-1", USER).fork(to=name)
        except InvalidInput:  # there is nothing to fork just now
            pass
        await process.store.thread(name, USER).append({"text": self.mark()})

    async def _take_a_turn(self, process: Process) -> None:
        ttl = self._simulation.ttl
        thread = process.store.thread("t-1", USER)
        key = f"turn-{process.chance.randint(1, 9)}"
        with suppress(KeyReusedError):  # its answer was removed since
            async with thread.turn(key=key, last=5, ttl=ttl, wait=0) as turn:
                await process.pause(3.0)
                if turn.answer is None:
                    await turn.store({"text": self.mark()})

    async def _reply(self, process: Process) -> None:
        """Repeat what was read, perhaps after others have begun the conversation again."""
        thread = process.store.thread("t-1", USER)
        window = await thread.load()
        if window.messages:
            await process.pause(3.0)
            await thread.append({"text": window.messages[-1]["text"]}, saw=window)

    async def _compact(self, process: Process) -> None:
        async def summarize(previous: str | None, messages: list[dict[str, Any]]) -> str:
            await process.pause(3.0)
            return " ".join([previous or "", *(message["text"] for message in messages)])

        await process.store.thread("t-1", USER).compact(Compaction(summarize, after=3, keep=1))

    async def _act(self, process: Process) -> None:
        async def act(text: str) -> str:
            await process.pause(3.0)
            return f"{text} {self.mark()}"

        mark, ttl = self.mark(), self._simulation.ttl
        await process.store.thread("t-1", USER).effect(f"of {mark}", act, mark, ttl=ttl, wait=0)

    async def _write(self, process: Process) -> None:
        await process.store.user(USER).put({"name": self.mark()}, "profile")

    async def _remember(self, process: Process) -> None:
        await process.store.thread("t-1", USER).vars.put({"topic": self.mark()})

    async def _update(self, process: Process) -> None:
        mark = self.mark()
        await process.store.user(USER).update(lambda value: {**value, mark: True}, "facts")

    async def _publish(self, process: Process) -> None:
        await process.store.journal("j-1", USER).append({"text": self.mark()})

    async def _snapshot(self, process: Process) -> None:
        journal = process.store.journal("j-1", USER)
        await journal.snapshot(lambda state, event: [*state, event["text"]], [])

    async def _run_task(self, process: Process) -> None:
        async def work() -> str:
            await process.pause(3.0)
            return self.mark()

        ttl = self._simulation.ttl
        await process.store.once("task-1", work, user=USER, ttl=ttl, wait=0)

    async def _drive(self, process: Process) -> None:
        async def step() -> str:
            await process.pause(3.0)
            return self.mark()

        async def handle(run: Run) -> None:
            for number in range(3):
                value = await run.step(f"step {number}", step)
                await run.save({"last": value})

        ttl = self._simulation.ttl
        workflow = process.store.workflow("w-1", kind="any", user=USER, ttl=ttl, wait=0)
        async with workflow as run:
            await handle(run)

    async def erase(self, process: Process, tries: int) -> None:
        """Erase the user; after a failure, go on where it was."""
        for _ in range(tries):
            await process.pause(5.0)
            began = self._simulation.sequence()
            try:
                await process.store.user(USER).erase()
            except (StoreUnavailable, StateConflictError):
                continue
            self.erased = began if self.erased is None else max(began, self.erased)
            self.judge()

    def judge(self) -> None:
        """Nothing of what was stored before the last erasure is there, under whatever name."""
        for where, mark in self.visible():
            stored = self.first_stored.get(mark, 0)
            self._simulation.require(
                self.erased is None or stored > self.erased,
                f"{mark} in the {where} was stored at {stored} and erased at {self.erased}",
            )

    def visible(self) -> Iterator[tuple[str, str]]:
        """Every mark that is stored, and where: a copy may have lost whose it is."""
        listed = self._simulation.ask(List(NAMESPACE, expired=True))
        assert isinstance(listed, Listed)
        for found in listed.entities:
            kind, id = found.entity.kind, found.entity.id
            held = self._simulation.entries(kind, id)
            held_texts = [entry.body for entry in held.entries]
            held_texts += [value.json for value in held.documents.values()]
            for mark in MARK.findall(" ".join(held_texts)):
                yield f"{kind} {id}", mark


async def erase(simulation: Simulation) -> None:
    """Two or three replicas act for the user, one erases; at last all is erased once more."""
    plan = simulation.plan
    life = Life(simulation)
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for _ in range(plan.randint(1, 2)):
            simulation.job(process, life.live(process, plan.randint(8, 14)), "lives")
    eraser = simulation.process()
    simulation.job(eraser, life.erase(eraser, 5), "erases")
    await simulation.storm(40.0)
    life.judge()

    healthy = simulation.process().store
    try:
        await healthy.user(USER).erase()
    except StatewardError as error:
        simulation.violated(f"a healthy store does not erase: {error}")
    left = list(life.visible())
    simulation.require(not left, f"everything was erased, and {left} is there")
    await healthy.user(USER).put({"name": life.mark()}, "profile")
    again = (await healthy.user(USER).get("profile")).exists
    simulation.require(again, "an erased user cannot write any more")


def texts(commit: Commit) -> Iterator[str]:
    for write in commit.writes:
        if isinstance(write, Append):
            yield from write.bodies
        elif isinstance(write, Put):
            yield write.value
        elif isinstance(write, Replace):
            yield from (body for body in write.entries.values() if body is not None)
