"""Tasks that run once, at a time of their own."""

from __future__ import annotations

from collections import Counter
from functools import partial

from conformance.state.meanwhile import rounds

from matrix.features.feature import Feature
from matrix.program import DAY, USERS, Action, Program, Violation


class Scheduled(Feature):
    """A task for later runs once when it is due, unless its user was erased before."""

    MODEL = ("due", "erased", "ran")

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.due: dict[str, tuple[float, str]] = {}
        self.erased: set[str] = set()
        self.ran: Counter[str] = Counter()

    def actions(self) -> list[Action]:
        return [self.schedule, self.schedule, self.work]

    def remind(self, id: str) -> str:
        """Run as the task of this id."""
        self.ran[id] += 1
        return id

    async def schedule(self) -> str:
        id, user = self.program.new("task"), self.random.choice(USERS)
        at = self.program.now + self.random.choice((0.01, 1.0, 5.0)) * DAY
        remind = partial(self.remind)
        remind.__name__ = "remind"  # type: ignore[attr-defined]
        remind.__qualname__ = "remind"  # type: ignore[attr-defined]
        await self.program.store.once(id, remind, id, user=user, at=at, retain=None)
        self.due[id] = (at, user)
        return f"{id} of {user} at {at}"

    async def work(self) -> str:
        await self.program.store.work(
            {}, tasks={"remind": self.remind}, poll=0.001, until=rounds(2)
        )
        for id, (at, _) in self.due.items():
            expected = int(at <= self.program.now and id not in self.erased)
            if self.ran[id] != expected and not (id in self.erased and self.ran[id] == 1):
                raise Violation(f"{id} ran {self.ran[id]} times instead of {expected}")
        return str(dict(self.ran))

    def user_erased(self, user: str) -> None:
        self.erased |= {id for id, (_, owner) in self.due.items() if owner == user}
