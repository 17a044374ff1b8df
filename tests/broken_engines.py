"""Engines that are wrong in one way each, to prove that a check can fail.

A checker or a suite that accepts one of these is itself broken. Chance decides which
operations suffer, and the seed decides chance. `broke` counts them: with none, a run proves
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.ops import (
    Append,
    Applied,
    Commit,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Fence,
    Fetch,
    Fetched,
    LogAt,
    Op,
    Outcome,
    Put,
    StatusIn,
)

NEVER = StatusIn(())  # a check that nothing meets


class Broken(Passthrough):
    """Chance, and a count of what it broke. One operation in `one_in` suffers, on average."""

    def __init__(self, engine: Engine, *, seed: int, one_in: int = 3) -> None:
        super().__init__(engine)
        self.broke = 0
        self._chance = random.Random(seed)
        self._one_in = one_in

    def _unlucky(self) -> bool:
        return self._chance.randrange(self._one_in) == 0


class LosesUpdates(Broken):
    """Ignores the version a write was made for, so that it overwrites another's."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await super().execute([self._unchecked(op) for op in ops], deadline=deadline)

    def _unchecked(self, op: Op) -> Op:
        if not isinstance(op, Commit) or not self._unlucky():
            return op
        versions = LogAt | DocumentAt | CommitsAt
        left = tuple(check for check in op.checks if not isinstance(check, versions))
        self.broke += len(left) < len(op.checks)
        return replace(op, checks=left)


class IgnoresFences(Broken):
    """Lets a superseded holder write."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await super().execute([self._unfenced(op) for op in ops], deadline=deadline)

    def _unfenced(self, op: Op) -> Op:
        if not isinstance(op, Commit) or not self._unlucky():
            return op
        left = tuple(check for check in op.checks if not isinstance(check, Fence))
        self.broke += len(left) < len(op.checks)
        return replace(op, checks=left)


class DropsAcknowledged(Broken):
    """Answers as if it had stored a write, and has not."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        asked = [rehearsal(op) if droppable(op) and self._unlucky() else op for op in ops]
        outcomes = await super().execute(asked, deadline=deadline)
        for at, op in enumerate(ops):
            outcome = outcomes[at]
            if isinstance(op, Commit) and isinstance(outcome, Conflict) and outcome.failed == NEVER:
                self.broke += 1
                outcomes[at] = pretended(op, outcome)
        return outcomes


def droppable(op: Op) -> bool:
    """A commit of messages and documents alone: the answer to others cannot be made up."""
    return isinstance(op, Commit) and all(isinstance(w, Append | Put | Delete) for w in op.writes)


def rehearsal(op: Op) -> Op:
    """The same commit with one more check, the last, that fails if nothing else refuses it."""
    assert isinstance(op, Commit)
    names = tuple(write.name for write in op.writes if isinstance(write, Put | Delete))
    return replace(op, checks=(*op.checks, NEVER), reading=op.reading + names)


def pretended(commit: Commit, refused: Conflict) -> Applied:
    """What the engine would have answered if it had applied the commit."""
    head, values = refused.head, refused.values
    bodies = sum(len(write.bodies) for write in commit.writes if isinstance(write, Append))
    documents: dict[str, int] = {}
    for write in commit.writes:
        if isinstance(write, Put):
            documents[write.name] = values[write.name].version + 1 if write.name in values else 1
        elif isinstance(write, Delete):
            documents[write.name] = 0
    return Applied(
        version=head.version + bodies,
        stamp=commit.op if bodies else head.stamp,
        at=head.updated,
        documents=documents,
        created=not head.exists,
        values={name: values[name] for name in commit.reading if name in values},
    )


class ServesStale(Broken):
    """Answers a fetch as it answered the same fetch some time ago, like a cache or a replica."""

    def __init__(self, engine: Engine, *, seed: int, one_in: int = 3) -> None:
        super().__init__(engine, seed=seed, one_in=one_in)
        self._answers: dict[Fetch, Fetched] = {}

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        for at, op in enumerate(ops):
            outcome = outcomes[at]
            if isinstance(op, Fetch) and op.known is None and isinstance(outcome, Fetched):
                old = self._answers.get(op)
                if old is not None and self._unlucky():
                    self.broke += old != outcome
                    outcomes[at] = old
                else:
                    self._answers[op] = outcome
        return outcomes


class DeliversTwice(Broken):
    """Applies a commit a second time, as if it did not know its op and key."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        again = [
            redelivered(op)
            for op, outcome in zip(ops, outcomes, strict=True)
            if isinstance(op, Commit) and isinstance(outcome, Applied) and self._unlucky()
        ]
        if again:
            self.broke += len(again)
            await super().execute(again, deadline=deadline)
        return outcomes


def redelivered(commit: Commit) -> Commit:
    """The same writes as a stranger's."""
    writes = tuple(replace(w, key=None) if isinstance(w, Append) else w for w in commit.writes)
    return replace(commit, op=commit.op + "-again", writes=writes, checks=())
