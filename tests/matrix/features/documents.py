"""What is known about a user, and its past."""

from __future__ import annotations

from typing import Any

import stateward
from matrix.features.feature import Feature
from matrix.program import DAY, USERS, Action, Program, Violation

Value = dict[str, Any] | None


class Documents(Feature):
    """A document of each user: what it is, what it was, and what is kept of that."""

    MODEL = ("past",)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.past: dict[str, list[tuple[float, Value]]] = {user: [] for user in USERS}
        self.times: dict[str, list[float]] = {user: [] for user in USERS}  # also of what was erased

    def actions(self) -> list[Action]:
        reads = [self.look_back, self.look_back, self.undo]
        return [self.put, self.put_often, self.patch, self.delete, self.keep, *reads]

    async def begin(self) -> None:
        if self.random.random() < 0.5:
            await self.keep()

    def _value(self, user: str, at: float | None = None) -> Value:
        values = [v for when, v in self.past[user] if at is None or when <= at]
        return values[-1] if values else None

    def _note(self, user: str, value: Value) -> None:
        self.past[user].append((self.program.now, value))
        self.times[user].append(self.program.now)
        self.program.world.advance(seconds=self.random.choice((60.0, 3_600.0, DAY)))

    async def put(self) -> str:
        user = self.random.choice(USERS)
        value = {"plan": self.program.new("plan")}
        await self.program.store.user(user).put(value)
        self._note(user, value)
        return f"{user} {value}"

    async def put_often(self) -> str:
        """Change a document so often that what need not be kept of its past is removed."""
        user = self.random.choice(USERS)
        removed = self.random.randrange(30)
        for number in range(20):
            if number == removed:
                await self.program.store.user(user).delete()
                self._note(user, None)
            value = {"plan": self.program.new("plan")}
            await self.program.store.user(user).put(value)
            self.past[user].append((self.program.now, value))
            self.program.world.advance(seconds=600.0)
        return f"{user} 20 values, the last {value}"

    async def patch(self) -> str:
        user, n = self.random.choice(USERS), self.program.new("n")
        await self.program.store.user(user).patch({"n": n})
        self._note(user, {**(self._value(user) or {}), "n": n})
        return f"{user} {n}"

    async def delete(self) -> str:
        user = self.random.choice(USERS)
        await self.program.store.user(user).delete()
        if self._value(user) is not None:
            self._note(user, None)
        return user

    def _moment(self, user: str) -> float | None:
        """Return a moment between two changes, or None."""
        times = self.times[user]
        return self.random.choice(times) + 1.0 if times else None

    async def look_back(self) -> str | None:
        user = self.random.choice(USERS)
        at = self._moment(user)
        if at is None:
            return None
        try:
            read = await self.program.store.user(user).get(at=at)
        except stateward.NotKept:
            return f"{user} at {at}: not kept"
        value, expected = read.value if read.exists else None, self._value(user, at)
        if value != expected:
            raise Violation(f"at {at} the document of {user} was {expected}, not {value}")
        return f"{user} at {at}: {value}"

    async def undo(self) -> str | None:
        user = self.random.choice(USERS)
        at = self._moment(user)
        if at is None:
            return None
        try:
            await self.program.store.user(user).undo(at=at)
        except stateward.NotKept:
            return f"{user} to {at}: not kept"
        value = self._value(user, at)
        if value is not None or self._value(user) is not None:
            self._note(user, value)
        return f"{user} to {at}: {value}"

    async def keep(self) -> str:
        """Start again with another setting of how much of the past is kept."""
        within = self.random.choice((2 * DAY, 90 * DAY))
        self.program.options["keep"] = stateward.Keep(within=within)
        await self.program.restart()
        return f"{within / DAY} days"

    async def check(self) -> None:
        for user in USERS:
            read = await self.program.store.user(user).get()
            value = read.value if read.exists else None
            if value != self._value(user):
                raise Violation(f"the document of {user} is {value}, not {self._value(user)}")

    def user_erased(self, user: str) -> None:
        self.past[user] = []
