"""Tools that act, in conversations."""

from __future__ import annotations

from dataclasses import dataclass, field
from http.client import IncompleteRead

import stateward
from matrix.features.feature import Feature
from matrix.program import Action, Program, Talk, Violation


@dataclass
class Act:
    """One call of a tool in one life of a conversation: how it ended, how often it acted."""

    talk: str
    life: int
    call: str
    how: str  # "done", "declined" or "lost" (it acted, and the answer was lost)
    acted: int = 0
    keys: list[str] = field(default_factory=list)  # that the service got, if it takes any


class Effects(Feature):
    """Each call of a tool acts once as long as its conversation is there."""

    MODEL = ("acts",)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.acts: list[Act] = []
        self.keyed: set[str] = set()  # calls whose service takes the key, and acts once for each

    def actions(self) -> list[Action]:
        return [self.act, self.act, self.repeat, self.repeat, self.resolve, self.delete_amid]

    async def act(self) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        how = self.random.choice(("done", "done", "declined", "lost", "keyed"))
        act = Act(talk.id, talk.life, self.program.new("call"), "lost" if how == "keyed" else how)
        if how == "keyed":
            self.keyed.add(act.call)
        self.acts.append(act)
        await self._call(act, talk)
        return f"{act.call} in {talk.id}: {act.how}"

    async def repeat(self) -> str | None:
        there = self._living()
        if not there:
            return None
        act, talk = self.random.choice(there)
        await self._call(act, talk)
        return f"{act.call} in {talk.id}"

    async def _call(self, act: Act, talk: Talk) -> None:
        keyed = act.call in self.keyed
        if keyed and act.keys:
            act.how = "done"  # the service answers the second request

        async def tool() -> str:
            if keyed:
                act.keys.append(stateward.idempotency_key())
            act.acted += not keyed or len({*act.keys}) == len(act.keys)
            if act.how == "declined":
                raise ValueError("the card is declined")
            if act.how == "lost":
                raise IncompleteRead(b"")
            return act.call

        try:
            result = await self.program.thread(talk).effect(act.call, tool, keyed=keyed)
        except stateward.EffectUnknown:
            ended = "lost"
        except ValueError:
            ended = "declined"
        else:
            ended = "done" if result == act.call else f"{result!r}"
        if ended != act.how:
            raise Violation(f"{act} ended as {ended}")
        if act.acted > 1:
            raise Violation(f"{act} acted again")

    def _living(self) -> list[tuple[Act, Talk]]:
        talks = self.program.talks
        pairs = ((act, talks[act.talk]) for act in self.acts if act.talk in talks)
        return [(act, talk) for act, talk in pairs if talk.exists and talk.life == act.life]

    async def resolve(self) -> str | None:
        lost = [(act, talk) for act, talk in self._living() if act.how == "lost"]
        if not lost:
            return None
        act, talk = self.random.choice(lost)
        effect = self.program.store.effect(f"thread/{talk.id}/{act.call}")
        await effect.resolve("done", result=act.call)
        act.how = "done"
        return act.call

    async def delete_amid(self) -> str | None:
        """Delete a conversation while one of its tools acts."""
        talk = self.program.existing()
        if talk is None:
            return None
        act = Act(talk.id, talk.life, self.program.new("call"), "done")

        async def tool() -> str:
            await self.program.thread(talk).delete()
            self.program.ended(talk, "deleted")
            return act.call

        try:
            await self.program.thread(talk).effect(act.call, tool)
        except stateward.StatewardError as error:
            return f"{talk.id}: {type(error).__name__}"
        return talk.id

    async def check(self) -> None:
        listed = {e.id async for e in self.program.store.effects() if e.kind == "thread"}
        expected = {f"thread/{act.talk}/{act.call}" for act, _ in self._living() if act.acted}
        if missing := expected - listed:
            raise Violation(f"the effects {missing} are gone, and would act again")
        undecided = {f"thread/{act.talk}/{act.call}" for act in self.acts if act.how == "lost"}
        if left := listed - expected - undecided:
            raise Violation(f"the effects {left} are left of conversations that ended")
