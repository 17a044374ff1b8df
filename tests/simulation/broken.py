"""Stores that break one rule of the contract each. A simulation that lets them pass is blind.

Each is the reference model with a single defect, sometimes only now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random

from msgspec.structs import replace

from stateward.engines.memory.model import Model
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    Commit,
    CommitOutcome,
    Conflict,
    DocumentAt,
    Drop,
    Entity,
    Fence,
    Fetch,
    Fetched,
    Lease,
    List,
    Listed,
    LogAt,
    NotYours,
    Release,
    Renew,
    StatusIn,
    Write,
)

NOW_AND_THEN = 0.15


class BrokenModel(Model):
    """The reference, with chance."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance

    def now_and_then(self) -> bool:
        return self._chance.random() < NOW_AND_THEN


class IgnoresChecks(BrokenModel):
    """Carries a commit out though a check of some kind does not hold."""

    ignored: tuple[type[Check], ...] = ()

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        kept = tuple(check for check in commit.checks if not isinstance(check, self.ignored))
        return super()._commit(replace(commit, checks=kept), now)


class IgnoresHolders(IgnoresChecks):
    """Takes writes of holders that were superseded long ago."""

    ignored = (Fence,)

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        cell = self._cells.get(commit.entity)
        lease = None if cell is None else cell.lease
        others = tuple(w for w in commit.writes if not stale(w, lease))
        return super()._commit(replace(commit, writes=others or commit.writes), now)


class IgnoresVersions(IgnoresChecks):
    """Lets the last writer win."""

    ignored = (LogAt, DocumentAt)


class IgnoresStatus(IgnoresChecks):
    """Changes what is finished, and creates what exists."""

    ignored = (StatusIn, Absent)


class LosesWrites(BrokenModel):
    """Acknowledges a commit and, now and then, does not keep it."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        before = deepcopy(self._cells.get(commit.entity))
        outcome = super()._commit(commit, now)
        if isinstance(outcome, Applied) and self.now_and_then():
            if before is None:
                del self._cells[commit.entity]
            else:
                self._cells[commit.entity] = before
        return outcome


class ForgetsOps(BrokenModel):
    """Does not know what it has applied, so a retry after a lost reply is applied again."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        if commit.entity in self._cells:
            self._cells[commit.entity].ops.clear()
        return outcome


class ForgetsKeys(BrokenModel):
    """Does not know a caller's key again."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        if commit.entity in self._cells:
            self._cells[commit.entity].keys.clear()
        return outcome


class ForgetsTheDead(BrokenModel):
    """Keeps no tombstone: what was dropped is as if it had never been."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        if isinstance(commit.writes[0], Drop) and isinstance(outcome, Applied):
            self._cells.pop(commit.entity, None)
        return outcome


class DropsNothing(BrokenModel):
    """Acknowledges a drop and, now and then, keeps what should be gone."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        dropping = isinstance(commit.writes[0], Drop)
        if dropping and commit.entity in self._cells and self.now_and_then():
            return Applied(version=0, stamp="", at=now)
        return super()._commit(commit, now)

    def _list(self, op: List, now: float) -> Listed:
        """A listing by owner that misses something, as an index that was not kept up does."""
        listed = super()._list(op, now)
        if op.owner is None or not listed.entities or not self.now_and_then():
            return listed
        return Listed(listed.entities[1:], listed.documents, listed.next)


class ReadsThePast(BrokenModel):
    """Answers a read, now and then, with what was there at the read before."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._last: dict[tuple[Entity, str], Fetched] = {}

    def _fetch(self, fetch: Fetch, now: float) -> Fetched | NotYours:
        fetched = super()._fetch(fetch, now)
        if isinstance(fetched, NotYours):
            return fetched
        past = self._last.get((fetch.entity, repr(fetch)), fetched)
        self._last[fetch.entity, repr(fetch)] = fetched
        return past if self.now_and_then() else fetched


class SkipsEntries(BrokenModel):
    """Leaves an entry out of a page of the log, now and then."""

    def _fetch(self, fetch: Fetch, now: float) -> Fetched | NotYours:
        fetched = super()._fetch(fetch, now)
        if isinstance(fetched, NotYours) or len(fetched.entries) < 2 or not self.now_and_then():
            return fetched
        return replace(fetched, entries=fetched.entries[1:], count=fetched.count - 1)


class SplitsTurns(BrokenModel):
    """Stores the end of an append after the next one."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._ends: list[Commit] = []

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        write = commit.writes[0]
        if isinstance(write, Append) and len(write.bodies) > 1 and self.now_and_then():
            begin, end = Append(write.bodies[:1], write.key), Append(write.bodies[1:])
            self._ends.append(Commit(commit.entity, f"{commit.op} end", (end,)))
            return super()._commit(replace(commit, writes=(begin,)), now)
        outcome = super()._commit(commit, now)
        while self._ends:
            super()._commit(self._ends.pop(), now)
        return outcome


class AppendsTwice(BrokenModel):
    """Carries an append out twice, now and then."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        first = commit.writes[0]
        if isinstance(outcome, Applied) and isinstance(first, Append) and self.now_and_then():
            again = Commit(commit.entity, f"{commit.op} again", (Append(first.bodies),))
            super()._commit(again, now)
        return outcome


class GrantsTwice(BrokenModel):
    """Grants a lease, now and then, though somebody holds it."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        cell = self._cells.get(commit.entity)
        acquires = any(isinstance(write, Acquire) for write in commit.writes)
        if cell is not None and cell.lease is not None and acquires and self.now_and_then():
            cell.lease = replace(cell.lease, until=0.0)
        return super()._commit(commit, now)


class TokensGoBack(BrokenModel):
    """Numbers leases anew each time, so that a token says nothing about who came later."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        cell = self._cells.get(commit.entity)
        acquires = any(isinstance(write, Acquire) for write in commit.writes)
        if (
            isinstance(outcome, Applied)
            and cell is not None
            and cell.lease is not None
            and acquires
        ):
            cell.lease = replace(cell.lease, token=self._chance.randint(1, 1_000))
            return replace(outcome, lease=cell.lease)
        return outcome


class NeverDue(BrokenModel):
    """Forgets, now and then, when something is due."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        cell = self._cells.get(commit.entity)
        if isinstance(outcome, Applied) and cell is not None and self.now_and_then():
            cell.due = None
        return outcome


class RefusesAndStores(BrokenModel):
    """Says that somebody else was faster, now and then, and stores the write all the same."""

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        outcome = super()._commit(commit, now)
        versions = [c for c in commit.checks if isinstance(c, LogAt | DocumentAt)]
        if isinstance(outcome, Applied) and versions and self.now_and_then():
            cell = self._cells[commit.entity]
            return Conflict(versions[0], cell.head(now), cell.documents)
        return outcome


def stale(write: Write, lease: Lease | None) -> bool:
    """Whether this gives back or renews a lease that is somebody else's by now."""
    return isinstance(write, Release | Renew) and (lease is None or lease.nonce != write.nonce)


BROKEN: dict[str, Callable[[Random], Model]] = {
    "ignores-holders": IgnoresHolders,
    "ignores-versions": IgnoresVersions,
    "ignores-status": IgnoresStatus,
    "loses-writes": LosesWrites,
    "forgets-ops": ForgetsOps,
    "forgets-keys": ForgetsKeys,
    "forgets-the-dead": ForgetsTheDead,
    "drops-nothing": DropsNothing,
    "reads-the-past": ReadsThePast,
    "skips-entries": SkipsEntries,
    "splits-turns": SplitsTurns,
    "appends-twice": AppendsTwice,
    "grants-twice": GrantsTwice,
    "tokens-go-back": TokensGoBack,
    "never-due": NeverDue,
    "refuses-and-stores": RefusesAndStores,
}
