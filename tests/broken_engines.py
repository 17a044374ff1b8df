"""Engines that are wrong in one way each, to prove that a check can fail.

A checker or a suite that accepts one of these is itself broken. Chance decides which
operations suffer, and the seed decides chance. `broke` counts them: with none, a run proves
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import copy

from msgspec.structs import replace

from stateward.engine import Engine
from stateward.engines.memory.cell import Cell
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.ops import (
    Append,
    Applied,
    Commit,
    CommitOutcome,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fetch,
    Fetched,
    LogAt,
    Op,
    Outcome,
    Put,
    Release,
    SetHead,
    StatusIn,
    Trim,
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


# --- stores that keep a wrong account of some commits -----------------------------------

Spoiler = Callable[[Cell, Cell, Commit, float], None]


class Misaccounts(Model):
    """A store in memory that spoils what some commits leave behind."""

    def __init__(self, suffers: Callable[[Commit], bool], spoil: Spoiler, kind: type) -> None:
        super().__init__()
        self._suffers = suffers
        self._spoil = spoil
        self._kind = kind
        self._in_batch = False

    def execute(self, ops: Sequence[Op], now: float) -> list[Outcome]:
        self._in_batch = len(ops) > 1
        return super().execute(ops, now)

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        before = copy(self._cells.get(commit.entity)) or Cell()
        outcome = super()._commit(commit, now)
        cell = self._cells.get(commit.entity)
        if isinstance(outcome, self._kind) and cell is not None and self._suffers(commit):
            self._spoil(before, cell, commit, now)
        return outcome

    def suffers_in_batches(self, commit: Commit) -> bool:
        return self._in_batch


def uncounted(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.commits = before.commits


def counted(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.commits += 1


def untouched(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.updated = before.updated


def touched(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.updated = now


def unstamped(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.stamp = before.stamp


def stamped(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    cell.stamp = commit.op


def put_unstamped(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    for name, value in cell.documents.items():
        if name in before.documents:
            old = before.documents[name]
            cell.documents[name] = replace(value, stamp=old.stamp, updated=old.updated)


def put_at_the_end(before: Cell, cell: Cell, commit: Commit, now: float) -> None:
    for name, value in cell.documents.items():
        cell.documents[name] = replace(value, log=cell.version)


def alone(kind: type) -> Callable[[Commit], bool]:
    """Commits whose only write is of this kind."""
    return lambda commit: [type(write) for write in commit.writes] == [kind]


def having(kind: type) -> Callable[[Commit], bool]:
    return lambda commit: any(type(write) is kind for write in commit.writes)


def keyed(commit: Commit) -> bool:
    return any(type(write) is Append and write.key is not None for write in commit.writes)


def noted(commit: Commit) -> bool:
    return any(type(write) is Append and write.note is not None for write in commit.writes)


def in_batches(spoil: Spoiler) -> Model:
    model = Misaccounts(lambda commit: model.suffers_in_batches(commit), spoil, Applied)
    return model


MISACCOUNTS: dict[str, Callable[[], Model]] = {
    "a checked append is not counted": lambda: Misaccounts(
        lambda commit: alone(Append)(commit) and bool(commit.checks), uncounted, Applied
    ),
    "a lone append is not counted": lambda: Misaccounts(alone(Append), uncounted, Applied),
    "a lone append does not touch": lambda: Misaccounts(alone(Append), untouched, Applied),
    "a checked append does not touch": lambda: Misaccounts(
        lambda commit: alone(Append)(commit) and bool(commit.checks), untouched, Applied
    ),
    "an append by a key leaves the stamp": lambda: Misaccounts(keyed, unstamped, Applied),
    "an append with a note is not counted": lambda: Misaccounts(noted, uncounted, Applied),
    "a release does not touch": lambda: Misaccounts(having(Release), untouched, Applied),
    "a new owner does not touch": lambda: Misaccounts(having(SetHead), untouched, Applied),
    "a trim changes the stamp": lambda: Misaccounts(having(Trim), stamped, Applied),
    "a put alone is not counted": lambda: Misaccounts(alone(Put), uncounted, Applied),
    "a put leaves the document's stamp": lambda: Misaccounts(having(Put), put_unstamped, Applied),
    "a put takes the version of later appends": lambda: Misaccounts(
        having(Put), put_at_the_end, Applied
    ),
    "a drop is not counted": lambda: Misaccounts(having(Drop), uncounted, Applied),
    "a refused commit is counted": lambda: Misaccounts(lambda _: True, counted, Conflict),
    "a refused commit touches": lambda: Misaccounts(lambda _: True, touched, Conflict),
    "a repeated commit is counted": lambda: Misaccounts(lambda _: True, counted, Duplicate),
    "a repeated commit touches": lambda: Misaccounts(lambda _: True, touched, Duplicate),
    "a commit of a batch is not counted": lambda: in_batches(uncounted),
    "a commit of a batch does not touch": lambda: in_batches(untouched),
}
