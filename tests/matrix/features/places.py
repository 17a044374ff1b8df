"""The store is out of reach, goes back to an older state, or is copied."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from matrix.features.feature import Feature
from matrix.program import DAY, Action, Message, Program, Talk, Violation
from stateward.engines.memory.model import Model
from stateward.errors import StoreUnavailable
from stateward.state.window_record import Window
from stateward.sync.engines.memory import MemoryEngine
from stateward.transfer.erasures import Erasures
from stateward.transfer.source import Source
from stateward.transfer.target import RestoreTarget


class Outage(Feature):
    """One replica cannot reach the store; what it is given is stored later, once, if it may be."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.spilled: list[tuple[Talk, int, float, list[Message]]] = []
        self.read: list[tuple[Talk, int, Window]] = []  # by the first replica

    def actions(self) -> list[Action]:
        own = [self.cut, self.say_meanwhile, self.answer_meanwhile, self.heal]
        return own if self.program.cut_off else [self.cut]

    def restarted(self) -> None:
        self.read.clear()

    async def answer_meanwhile(self) -> str | None:
        """Spill the answer to what was read before, whatever others have done since."""
        if not self.program.cut_off or not self.read:
            return None
        talk, life, window = self.read.pop()
        messages = [
            {"role": role, "content": self.program.new("spilled ")}
            for role in ("user", "assistant")
        ]
        thread = self.program.stores[0].thread(talk.id, user=talk.owner)
        stored = await thread.append(*messages, key=self.program.new("key"), saw=window)
        if stored.status != "spilled":
            raise Violation(f"an answer in an outage was {stored.status}")
        self.spilled.append((talk, life, self.program.now, messages))
        return f"{talk.id} {messages[0]['content']}"

    async def cut(self) -> str | None:
        if self.program.cut_off:
            return None
        self.read = []
        for talk in self.program.talks.values():
            if talk.exists:  # the first replica answers it during the outage
                window = await self.program.stores[0].thread(talk.id, user=talk.owner).load(last=5)
                self.read.append((talk, talk.life, window))
        self.random.shuffle(self.read)
        self.program.stores[0].faults.unavailable()
        self.program.cut_off = True
        return "the first replica"

    async def say_meanwhile(self) -> str | None:
        if not self.program.cut_off:
            return None
        talk = self.program.pick()
        message = {"role": "user", "content": self.program.new("spilled ")}
        thread = self.program.stores[0].thread(talk.id, user=talk.owner)
        stored = await thread.append(message, key=self.program.new("key"))
        if stored.status != "spilled":
            raise Violation(f"an append in an outage was {stored.status}")
        self.spilled.append((talk, talk.life, self.program.now, [message]))
        return f"{talk.id} {message['content']}"

    async def heal(self) -> str | None:
        if not self.program.cut_off:
            return None
        self.program.reachable()
        await self._replayed()
        return "the first replica"

    async def _replayed(self) -> None:
        """Wait until what was spilled is stored, and note what must be there."""
        store = self.program.stores[0]
        spilled, self.spilled = self.spilled, []
        end = self.program.world.monotonic() + 10.0
        readable = False
        while not readable or (await store.health()).spill_depth:
            with suppress(StoreUnavailable):  # the breaker is open
                for talk in self.program.talks.values():
                    await store.thread(talk.id).load(last=1)
                readable = True
            await self.program.world.pause(0.005)
            if self.program.world.monotonic() > end:
                raise Violation(f"what was spilled is never stored: {spilled}")
        for talk, life, at, messages in spilled:
            how = self.program.ends.get((talk.id, life))
            late = how == "expired" or self.program.now - at >= DAY  # then the message may be lost
            if late:
                window = await store.thread(talk.id).load()
                if messages[0] not in window.messages:
                    continue
            if late or how is None:
                self.program.appended(talk, *messages)

    async def finish(self) -> None:
        await self.heal()


class Failover(Feature):
    """The store goes back to an older state, as after a failover that lost the newest writes."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.older: tuple[Model, Any] | None = None

    def actions(self) -> list[Action]:
        return [self.mark, self.fail_over]

    async def mark(self) -> str:
        self.older = (self.program.model.copy(), self.program.state())
        return "the state to go back to"

    async def fail_over(self) -> str | None:
        if self.older is None or self.program.cut_off:
            return None
        model, state = self.older
        self.older = None
        self.program.model._cells = model.copy()._cells
        if self.program.namespace != state[0]:
            await self.program.restart()
        self.program.rewind(state)
        for feature in self.program.features:
            feature.restarted()
        return "to the marked state"


class Copied(Feature):
    """The namespace is copied, and the program goes on in the copy."""

    def actions(self) -> list[Action]:
        return [self.copy]

    async def copy(self) -> str | None:
        if self.program.cut_off or self.random.random() < 0.4:
            return None
        program = self.program
        to = program.new("copy")
        engine = MemoryEngine(program.model, program.world)
        what = f"a copy of {program.namespace}"
        with engine.snapshot() as reader:
            source = Source(reader, program.namespace, one_moment=True)
            marks = Erasures()
            marks.add_all(source.marks(), source=True)
            target = RestoreTarget(engine, to, what, what, "--to")
            target.begin()
            target.put_marks(marks)
            target.put(source.lines(), marks)
            target.finish()
        await program.restart()
        program.namespace = to
        return to
