"""The consistency of one engine, by its answers: did it go back, who took a lease over.

Remembered for a while is how many commits each entity had, and whose lease was seen on it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from stateward.observe.concerned import Concerned
from stateward.observe.logs import log_going_back
from stateward.ops import Applied, Commit, Entity, Fetch, Fetched, Head, Op

ENTITIES = 4096  # remembered in each of two generations
GENERATION = 1800.0  # seconds; far below the day for which a store remembers what was deleted
PROBLEMS = ("backwards", "reset", "fenced", "unknown")


class Consistency:
    """The problems seen so far, and the leases taken over by kind."""

    def __init__(self, concerned: Concerned) -> None:
        self._concerned = concerned
        self.problems: Counter[str] = Counter()
        self.takeovers: Counter[str] = Counter()
        self.commits: dict[Entity, int] = {}
        self._older: dict[Entity, int] = {}
        self.rotated = 0.0
        self._leases: dict[Entity, tuple[int, float]] = {}  # token and end of leases seen
        self._lock = threading.Lock()  # over the two counters

    def commits_of(self, ops: Sequence[Op]) -> list[int]:
        """Return how many commits the entity of each had when last seen; 0 if never seen."""
        counts, commits = [], self.commits
        for op in ops:
            if type(op) is Fetch or type(op) is Commit:
                entity = op.entity
                counts.append(commits.get(entity) or self._older.get(entity, 0))
            else:
                counts.append(0)
        return counts

    def fetched(self, entity: Entity, fetched: Fetched, before: int) -> None:
        """Compare what the store shows with the commits that the entity had before."""
        head = fetched.head
        if head.commits > before:
            self.commits[entity] = head.commits
        elif head.commits < before and head.exists:
            # Less than it has shown: an old replica, a failover, a restore.
            self.count("backwards")
            self._concerned.note("went_back", entity)
            self.commits[entity] = head.commits  # said once; from here on it may only grow again
            log_going_back(entity, head, before)
        if fetched.reset:
            self.count("reset")

    def see(self, entity: Entity, head: Head) -> None:
        """Remember someone's lease, so that it is known whether the next one takes it over."""
        if head.lease is not None:
            if len(self._leases) >= ENTITIES:
                self._leases.clear()
            self._leases[entity] = (head.lease.token, head.lease.until)

    def granted(self, entity: Entity, applied: Applied, kind: str) -> None:
        """Note that a lease is ours now; its takeover, if it is one, is counted by `kind`."""
        previous = self._leases.pop(entity, None)
        lease = applied.lease
        assert lease is not None
        if previous is not None and previous[0] != lease.token and lease.granted >= previous[1]:
            with self._lock:
                self.takeovers[kind] += 1

    def count(self, problem: str) -> None:
        with self._lock:
            self.problems[problem] += 1

    def rotate(self, now: float) -> None:
        """Forget entities that were not seen for two generations."""
        self.rotated = now
        self._older, self.commits = self.commits, {}
