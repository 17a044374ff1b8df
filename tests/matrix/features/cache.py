"""Replicas that cache what they read."""

from __future__ import annotations

import stateward
from matrix.features.feature import Feature
from matrix.program import USERS, Action, Violation


class Cached(Feature):
    """A cached read is what any replica wrote a moment ago."""

    async def begin(self) -> None:
        self.program.options["cache"] = stateward.Cache()
        await self.program.restart()

    def actions(self) -> list[Action]:
        return [self.read, self.change_variables]

    async def read(self) -> str:
        """Read all users' documents by each replica: both must say the same."""
        for user in USERS:
            replicas = self.program.stores[self.program.cut_off :]
            answers = [(await store.user(user).get()).value for store in replicas]
            if any(answer != answers[0] for answer in answers):
                raise Violation(f"the replicas read different documents of {user}: {answers}")
        return "documents"

    async def change_variables(self) -> str | None:
        talk = self.program.existing()
        if talk is None:
            return None
        value = {"n": self.program.new("n")}
        await self.program.thread(talk).vars.put(value)
        for store in self.program.stores[self.program.cut_off :]:
            read = await store.thread(talk.id, user=talk.owner).vars.get()
            if read.value != value:
                raise Violation(f"the variables of {talk.id} are {read.value}, not {value}")
        return talk.id
