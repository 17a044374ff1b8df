"""What happened in a store since it was made, as plain numbers."""

from __future__ import annotations

from collections import Counter

THREADS_NAMED = 1000  # threads whose dropped turns are counted one by one


class Counters:
    """Numbers that only grow. Exporters read them; reading takes no lock.

    They belong to one store of one process, and begin anew with it.
    """

    __slots__ = (
        "adopted",
        "alarms_raised",
        "breaker_opened",
        "breaker_refused",
        "damaged",
        "dropped",
        "dropped_by_thread",
        "erased",
        "expired",
        "late",
        "lookups",
        "refused",
        "replayed",
        "retries",
        "slow_lookups",
        "spilled",
        "suppressed",
        "update_retries",
    )

    def __init__(self) -> None:
        self.lookups = 0  # calls that only read
        self.slow_lookups = 0  # those of them that took longer than `Alarm.slow`
        self.suppressed = 0  # appends whose failure the caller was spared: spilled + dropped
        self.spilled = 0  # of those, kept locally
        self.dropped = 0  # of those, lost: there was no room, or the store closed before a replay
        self.replayed = 0  # spilled appends that reached the store
        self.late = 0  # of those, ones that came after newer turns
        self.erased = 0  # spilled appends left out because their thread or user was erased
        self.expired = 0  # spilled appends that grew too old
        self.refused = 0  # spilled appends that the store refused: another's thread, a reused key
        self.adopted = 0  # spilled appends taken over from processes that have ended
        self.damaged = 0  # lines of spill files that could not be read
        self.breaker_opened = 0  # times the breaker opened
        self.breaker_refused = 0  # calls that failed at once because it was open
        self.alarms_raised = 0
        self.retries = 0  # tries of a call after one that the store failed
        self.update_retries = 0  # tries of an update after somebody else was faster
        self.dropped_by_thread: Counter[str] = Counter()  # "" are those beyond the first thousand

    def drop(self, thread: str) -> None:
        """One append of this thread is lost."""
        self.dropped += 1
        named = self.dropped_by_thread
        named[thread if thread in named or len(named) < THREADS_NAMED else ""] += 1

    def as_dict(self) -> dict[str, int]:
        """Every counter by name, except the one by thread."""
        return {name: getattr(self, name) for name in self.__slots__ if name[-6:] != "thread"}
