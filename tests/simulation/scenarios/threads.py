"""Replicas append to one thread: no turn is lost, split or doubled, and feeds have no gap."""

from __future__ import annotations

from typing import Any

from simulation.history import History
from simulation.simulation import Process, Simulation
from stateward.errors import StateConflictError, StoreUnavailable
from stateward.records import Appended

THREAD, USER = "t-1", "u-1"
Message = dict[str, Any]


class Conversation:
    """What the processes do, and what they were told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.turns = History(simulation, "the thread")
        self.keyed = [f"delivery {n}" for n in range(simulation.plan.randint(1, 3))]
        self.first_told: dict[str, str] = {}  # by key: who was told that it was the one to store
        self.delivered: set[str] = set()
        self.versions: dict[str, int] = {}
        self._won: dict[int, str] = {}

    async def append(self, process: Process, writer: int, count: int) -> None:
        """Turns of one to three messages, some only if nobody was faster."""
        thread = process.store.thread(THREAD, USER)
        for number in range(count):
            mark = f"{process.name}.{writer}.{number}"
            messages = turn(mark, process.chance.randint(1, 3))
            expect = None
            if process.chance.random() < 0.3:
                try:
                    expect = (await thread.load(last=1)).version
                except StoreUnavailable:
                    continue
            with self.turns.writing(mark, StateConflictError):
                async with process.patience():
                    appended = await thread.append(*messages, expect=expect)
                self.versions[mark] = appended.version
                self._simulation.require(appended.status == "stored", f"{mark}: {appended}")
                if expect is not None:
                    other = self._won.setdefault(expect, mark)
                    self._simulation.require(
                        other == mark, f"{other} and {mark} both followed version {expect}"
                    )
            await process.pause(1.0)

    async def deliver(self, process: Process) -> None:
        """The same turns with the same keys, as a queue would deliver them: again and again."""
        thread = process.store.thread(THREAD, USER)
        for key in self.keyed:
            for again in range(2):
                try:
                    async with process.patience():
                        appended = await thread.append(*turn(key, 2), key=key)
                except (StoreUnavailable, TimeoutError):
                    continue
                self._note(key, f"{process.name} {again}", appended)
                await process.pause(1.0)

    async def read(self, process: Process, count: int) -> None:
        """What was acknowledged before a read began is in what it returns."""
        thread = process.store.thread(THREAD, USER)
        for _ in range(count):
            before = self.turns.stored
            try:
                window = await thread.load(last=process.chance.choice((None, None, 5)))
            except StoreUnavailable:
                continue
            if not window.omitted:
                seen = {message["turn"] for message in window.messages}
                missing = [mark for mark in before if mark not in seen]
                self._simulation.require(not missing, f"a window does not show {missing}")
            await process.pause(2.0)

    def _note(self, key: str, who: str, appended: Appended) -> None:
        require = self._simulation.require
        self.delivered.add(key)
        if appended.status == "stored":
            other = self.first_told.setdefault(key, who)
            require(other == who, f"{key}: both {other} and {who} were told that they stored it")
        was = self.versions.setdefault(key, appended.version)
        require(was == appended.version, f"{key}: stored at {was} and at {appended.version}")


class Follower:
    """Somebody who reads the feed, and keeps the cursor where a death does not reach it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.cursor = "0"
        self.messages: list[Message] = []
        self._reader = 0

    async def follow(self, process: Process) -> None:
        """Read for ever, going on at the cursor after a failure."""
        self._reader += 1
        reader = self._reader
        thread = process.store.thread(THREAD, USER)
        while True:
            try:
                async for change in thread.changes(after=self.cursor):
                    if reader != self._reader:
                        return  # a successor has taken over
                    self.messages.append(change.message)
                    self.cursor = str(change.cursor)
                    count = len(self.messages)
                    self._simulation.require(
                        change.version == count, f"the feed gave {change} as its number {count}"
                    )
            except StoreUnavailable:
                await process.pause(1.0)


async def threads(simulation: Simulation) -> None:
    """Two or three replicas write, one follows, one reads windows."""
    plan = simulation.plan
    conversation, follower = Conversation(simulation), Follower(simulation)
    simulation.service(follower.follow, "follows")
    for _ in range(plan.randint(2, 3)):
        process = simulation.process()
        for writer in range(plan.randint(1, 3)):
            work = conversation.append(process, writer, plan.randint(4, 8))
            simulation.job(process, work, "appends")
        simulation.job(process, conversation.deliver(process), "delivers")
        simulation.job(process, conversation.read(process, 5), "reads")
    await simulation.storm(40.0)

    healthy = simulation.process()
    window = await healthy.store.thread(THREAD, USER).load()
    judge_turns(simulation, conversation, window.messages)
    shown = (await healthy.store.context(user=USER, thread=THREAD, last=3)).thread
    simulation.require(shown.messages == window.messages[-3:], "the context shows another thread")
    simulation.service(follower.follow, "follows")

    def caught_up() -> bool:
        return len(follower.messages) >= window.version

    await simulation.until(caught_up, 30.0, f"a feed stands at {follower.cursor}")
    simulation.require(follower.messages == window.messages, "a feed tells another story")


def judge_turns(
    simulation: Simulation, conversation: Conversation, messages: list[Message]
) -> None:
    """Every turn stands in one piece where its caller was told, as often as it may."""
    found: list[str] = []
    at = 0
    while at < len(messages):
        mark, of = messages[at]["turn"], messages[at]["of"]
        whole = messages[at : at + of] == turn(mark, of)
        simulation.require(whole, f"the turn {mark} is split or incomplete: {messages}")
        if not whole:
            return
        at += of
        found.append(mark)
        told = conversation.versions.get(mark, at)
        simulation.require(told == at, f"the turn {mark} ends at {at}, its caller was told {told}")
    conversation.turns.judge([mark for mark in found if mark not in conversation.keyed])
    for key in conversation.keyed:
        count = found.count(key)
        simulation.require(count <= 1, f"{key} is stored {count} times")
        simulation.require(count == 1 or key not in conversation.delivered, f"{key} is lost")


def turn(mark: str, of: int) -> list[Message]:
    return [{"role": "user", "turn": mark, "part": part, "of": of} for part in range(of)]
