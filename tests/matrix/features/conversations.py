"""Turns, receipts, retention, forks and erasure of conversations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import stateward
from matrix.features.feature import Feature
from matrix.program import DAY, Action, Message, Program, Talk, Violation, numbers, refused
from stateward.engine import KEY_SECONDS
from stateward.records import Cursor
from stateward.state.turns import Turn
from stateward.why.explanation import explain
from stateward.why.moment import read_moment


@dataclass
class OpenTurn:
    """A turn whose block was entered, in this life of its conversation."""

    talk: Talk
    life: int
    key: str
    turn: Turn
    until: float  # when the lease of a turn that is alone ends, if nobody renews it


class Turns(Feature):
    """Requests that are answered while other things happen."""

    MODEL = ("answered",)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.entered: list[OpenTurn] = []
        self.answered: dict[tuple[str, int, str], tuple[float, Message]] = {}
        self.taken_back = 0.0  # until when leases of before a failover may be held

    def actions(self) -> list[Action]:
        return [self.enter, self.enter, self.answer, self.answer, self.fail, self.redeliver]

    async def enter(self) -> str | None:
        if len(self.entered) > 2:
            return None
        program, talk = self.program, self.program.pick()
        alone = self.random.random() < 0.3 and not any(o.talk is talk for o in self.entered)
        key = program.new("request")
        turn = program.thread(talk).turn(key=key, last=20, alone=alone, ttl=DAY, wait=1.0)
        try:
            await turn.__aenter__()
        except stateward.LeaseHeld:
            if alone and program.now < self.taken_back:
                return f"{key} waits for a lease that a failover has brought back"
            raise
        until = program.now + (DAY if alone else 1_000 * DAY)
        self.entered.append(OpenTurn(talk, talk.life, key, turn, until))
        return f"{key} in {talk.id}{' alone' if alone else ''}"

    async def answer(self) -> str | None:
        if not self.entered or self.program.cut_off:
            return None
        program, opened = self.program, self.entered.pop(0)
        talk = opened.talk
        question = {"role": "user", "content": f"question of {opened.key}"}
        answer = {"role": "assistant", "content": f"answer of {opened.key}"}
        begun_there = opened.turn.window is not None and opened.turn.window.exists
        if opened.life != talk.life and begun_there:
            with refused(f"the answer {opened.key} to a conversation that had ended"):
                await opened.turn.store(question, answer)
            await program.taken_back(talk)
            await self._leave(opened)
            return f"{opened.key} is refused: {talk.id} had ended"
        try:
            stored = await opened.turn.store(question, answer)
        except stateward.StatewardError as error:
            await self._leave(opened)
            if opened.life == talk.life and program.now < opened.until:
                raise
            return f"{opened.key} is refused: {type(error).__name__}"
        await self._leave(opened)
        if stored.status != "stored":
            raise Violation(f"the answer {opened.key} was {stored.status}")
        program.appended(talk, question, answer)
        self.answered[talk.id, talk.life, opened.key] = (program.now, answer)
        return f"{opened.key} in {talk.id}"

    async def fail(self) -> str | None:
        if not self.entered:
            return None
        opened = self.entered.pop(0)
        error = RuntimeError("the model is down")
        await self._leave(opened, error)
        return f"{opened.key} in {opened.talk.id}"

    async def redeliver(self) -> str | None:
        there = [
            (talk, key, answer)
            for (id, life, key), (at, answer) in self.answered.items()
            if (talk := self.program.talks[id]).life == life
            and answer in talk.entries.values()
            and self.program.now - at < KEY_SECONDS
        ]
        if not there:
            return None
        talk, key, answer = self.random.choice(there)
        async with self.program.thread(talk).turn(key=key) as turn:
            if turn.answer != answer:
                raise Violation(f"{key} is answered by {turn.answer} instead of {answer}")
        return f"{key} in {talk.id}"

    async def _leave(self, opened: OpenTurn, error: BaseException | None = None) -> None:
        try:
            await opened.turn.__aexit__(type(error) if error else None, error, None)
        except stateward.LeaseLost:
            if opened.life == opened.talk.life and self.program.now < opened.until:
                raise

    async def finish(self) -> None:
        while self.entered:
            await self.fail()

    def restarted(self) -> None:
        self.entered.clear()

    def remember(self, model: dict[str, Any]) -> None:
        super().remember(model)
        self.taken_back = self.program.now + DAY


@dataclass
class Receipt:
    """The window that a model was given for one turn."""

    talk: str
    life: int
    version: int
    messages: list[Message]
    numbers: list[int]
    summarised: list[int]


class Receipts(Feature):
    """Windows of agents can be shown, and explained, whatever changes later."""

    MODEL = ("receipts",)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.receipts: list[Receipt] = []

    def actions(self) -> list[Action]:
        return [self.answer, self.answer, self.edit, self.truncate, self.talk_much]

    async def talk_much(self) -> str:
        talk = self.program.pick()
        spoken = [
            {"role": role, "content": self.program.new("words ")}
            for _ in range(self.random.randint(2, 6))
            for role in ("user", "assistant")
        ]
        await self.program.thread(talk).append(*spoken)
        self.program.appended(talk, *spoken)
        return f"{len(spoken)} messages in {talk.id}"

    async def answer(self) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        bounds: dict[str, Any] = self.random.choice(({}, {"last": 2}, {"turns": 2}, {"last": 5}))
        if self.random.random() < 0.5:

            async def summarize(previous: str | None, messages: list[Message]) -> str:
                return "a short summary"

            bounds = bounds | {"summarize": stateward.Compaction(summarize, after=8, keep=6)}
        thread = self.program.thread(talk)
        before = list(talk.entries)
        window = await thread.load(entries=True, **bounds)
        given = numbers(window.entries)
        summarised = [number for number in before if number not in given][: window.summarised]
        question = {"role": "user", "content": self.program.new("asked ")}
        answer = {"role": "assistant", "content": self.program.new("answered ")}
        stored = await thread.append(question, answer, saw=window)
        self.program.appended(talk, question, answer)
        self.receipts.append(
            Receipt(talk.id, talk.life, stored.version, window.messages, given, summarised)
        )
        return f"{talk.id} {stored.version} saw {given}"

    async def edit(self) -> str | None:
        talk = self.program.existing()
        if talk is None or not talk.entries:
            return None
        answers = [r.version for r in self.receipts if (r.talk, r.life) == (talk.id, talk.life)]
        answers = [number for number in answers if number in talk.entries] or [max(talk.entries)]
        everything = list(talk.entries)
        number = self.random.choice(self.random.choice((everything, everything, answers)))
        new = None if self.random.random() < 0.6 else {"role": "user", "content": "edited"}
        await self.program.thread(talk).edit({number: new})
        if new is None:
            del talk.entries[number]
        else:
            talk.entries[number] = new
        return f"{talk.id} {number}: {new}"

    async def truncate(self) -> str | None:
        talk = self.program.existing()
        if talk is None or not talk.entries:
            return None
        after = self.random.choice([0, *talk.entries])
        await self.program.thread(talk).truncate(after=after)
        talk.entries = {n: m for n, m in talk.entries.items() if n <= after}
        return f"{talk.id} after {after}"

    async def check(self) -> None:
        for receipt in self.receipts:
            talk = self.program.talks.get(receipt.talk)
            if talk is None or talk.life != receipt.life or receipt.version not in talk.entries:
                continue
            await self._check_receipt(receipt)
            await self._check_reasons(receipt, talk)

    async def _check_receipt(self, receipt: Receipt) -> None:
        knew = await self.program.store.knew(receipt.talk, receipt.version)
        if knew is None:
            raise Violation(f"{receipt.talk} {receipt.version} has lost its receipt")
        shown = iter(receipt.messages)
        if not all(message in shown for message in knew.messages):
            raise Violation(f"{knew.messages} was not given, but {receipt.messages}")
        if list(knew.numbers) != receipt.numbers:
            raise Violation(f"{knew.numbers} were not given, but {receipt.numbers}")

    async def _check_reasons(self, receipt: Receipt, talk: Talk) -> None:
        cursor = Cursor(receipt.version)
        explained = explain(await read_moment(self.program.store, talk.id, cursor, hosts=False))
        for sight in explained.messages:
            given = sight.number in receipt.numbers
            if sight.given is not None and sight.given != given:
                raise Violation(f"why says of {sight.number} given={sight.given}: {receipt}")
            summed = sight.number in receipt.summarised
            if sight.reason is not None and (sight.reason == "summarised") != summed:
                raise Violation(f"why says of {sight.number} {sight.reason!r}: {receipt}")


class Retained(Feature):
    """Conversations that are kept for another time, pinned and archived."""

    def actions(self) -> list[Action]:
        archives = [self.archive, self.archive, self.unarchive, self.unarchive]
        return [self.retain, self.pin, self.pin, self.unpin, *archives]

    async def retain(self) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        span = self.random.choice((None, 2 * DAY, 100 * DAY))
        await self.program.thread(talk).retain(span)
        talk.retain, talk.since = span, self.program.now
        return f"{talk.id} for {span}"

    async def pin(self) -> str | None:
        return await self._change("pin", pinned=True)

    async def unpin(self) -> str | None:
        talk = self.program.existing()
        if talk is None or talk.archived:
            return None  # what an archive means for a pin is the archive's
        await self.program.thread(talk).unpin()
        if talk.pinned:
            talk.since = self.program.now
        talk.pinned = False
        return talk.id

    async def archive(self) -> str | None:
        return await self._change("archive", archived=True)

    async def unarchive(self) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        await self.program.thread(talk).unarchive()
        if talk.archived:
            talk.since = self.program.now
        talk.archived = False
        return talk.id

    async def _change(self, method: str, **changed: bool) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        await getattr(self.program.thread(talk), method)()
        for name, value in changed.items():
            setattr(talk, name, value)
        return talk.id

    async def check(self) -> None:
        infos = [info async for info in self.program.store.threads()]
        shown = {info.id for info in infos}
        expected = {t.id for t in self.program.talks.values() if t.exists and not t.archived}
        if shown != expected:
            raise Violation(f"{shown} are listed outside of the archive, not {expected}")


class Fork(Feature):
    """Conversations that begin with the contents of another."""

    MODEL = ("origins",)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.origins: dict[str, tuple[str, int]] = {}  # of a fork: its origin and that one's life

    def actions(self) -> list[Action]:
        return [self.fork, self.fork, self.delete_fork]

    async def fork(self) -> str | None:
        talk = self.program.existing()
        if talk is None or len(self.program.talks) > 5:
            return None
        to = self.program.new("fork")
        at = self.random.choice([None, *talk.entries])
        await self.program.thread(talk).fork(to=to, at=at)
        upto = talk.version if at is None else at
        contents = [message for n, message in talk.entries.items() if n <= upto]
        window = await self.program.store.thread(to).load(entries=True)
        if window.messages != contents:
            raise Violation(f"{to} begins with {window.messages} instead of {contents}")
        entries = dict(zip(numbers(window.entries), contents, strict=True))  # may be renumbered
        copy = Talk(to, talk.owner, exists=True, version=window.version, entries=entries)
        copy.since = self.program.now  # its retention is the store's, as that of any new one
        self.program.talks[to] = copy
        self.origins[to] = (talk.id, talk.life)
        return f"{talk.id} at {at} to {to}"

    async def delete_fork(self) -> str | None:
        there = [id for id in self.origins if self.program.talks[id].exists]
        if not there:
            return None
        talk = self.program.talks[self.random.choice(there)]
        await self.program.thread(talk).delete()
        self.program.ended(talk, "deleted")
        return talk.id

    async def check(self) -> None:
        for talk in self.program.talks.values():
            if not talk.exists:
                continue
            listed = {branch.id async for branch in self.program.thread(talk).branches()}
            expected = {
                id
                for id, origin in self.origins.items()
                if origin == (talk.id, talk.life)
                and self.program.talks[id].exists
                and self.program.talks[id].life == 0
            }
            if listed != expected:
                raise Violation(f"{talk.id} has the branches {listed}, not {expected}")


class Erase(Feature):
    """A user is forgotten while other things happen."""

    def actions(self) -> list[Action]:
        return [self.erase]

    async def erase(self) -> str | None:
        if self.random.random() < 0.4:
            return None
        user = self.random.choice(("ann", "bob"))
        await self.program.store.user(user).erase()
        for talk in self.program.talks.values():
            if talk.owner == user:
                self.program.ended(talk, "erased")
        for feature in self.program.features:
            feature.user_erased(user)
        left = {k: n for k, n in (await self.program.store.counts(user)).items() if n}
        if left:
            raise Violation(f"{left} of {user} are left after the erasure")
        return user
