"""What goes wrong, drawn from the seed: which faults a run has at all, how often, and when.

Each seed enables some kinds of fault and leaves the others out. Runs that have everything at once
look alike; it is the odd combinations that find something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from stateward.ops import WRITES, Op

# At an operation of a process.
REFUSED = "refused"  # fails before it is executed
LOST = "lost"  # is executed, and its reply gets lost
TORN = "torn"  # some of the batch is executed, and the reply gets lost
SLOW = "slow"  # arrives late, perhaps after its own retry
SLOW_REPLY = "slow reply"
DEATH_BEFORE = "death before"  # the process dies before it is sent
DEATH_AFTER = "death after"  # the process dies after it is sent
PAUSE = "pause"  # the process is frozen while it is under way
RENEWAL_REFUSED = "renewal refused"
RENEWAL_LOST = "renewal lost"
FEED_BROKEN = "feed broken"
IMPATIENCE = "impatience"  # a caller gives up and is cancelled

# At a moment.
KILL = "kill"
RETIRE = "retire"  # the process is told to end, and closes its store
FREEZE = "freeze"
HANG = "hang"  # the event loop stands still, the lease thread does not
OUTAGE = "outage"  # the store refuses everybody
SILENCE = "silence"  # the store takes everything and answers nobody until it is over
PARTITION = "partition"  # the store refuses one process
CLOCK_BACK = "clock back"
CLOCK_FORWARD = "clock forward"

AT_OPERATIONS = (REFUSED, LOST, SLOW, SLOW_REPLY, DEATH_BEFORE, DEATH_AFTER, PAUSE)
AT_RENEWALS = (RENEWAL_REFUSED, RENEWAL_LOST)
AT_MOMENTS = (KILL, RETIRE, FREEZE, HANG, OUTAGE, SILENCE, PARTITION, CLOCK_BACK, CLOCK_FORWARD)
KINDS = (*AT_OPERATIONS, TORN, *AT_RENEWALS, FEED_BROKEN, IMPATIENCE, *AT_MOMENTS)

RATES = (0.02, 0.05, 0.12)
CALM = 0.08  # the part of all seeds in which nothing goes wrong
LATEST = 8.0  # seconds after which everything that was sent has arrived
LATENCIES = (0.004, 0.05, 0.3)  # seconds that an undisturbed operation takes at most, each way


class Fate(Struct, frozen=True):
    """What becomes of one batch: `kind` of failure if any, and seconds there and back."""

    kind: str | None = None
    there: float = 0.0
    back: float = 0.0


class DrawnFaults:
    """All that chance decides about failures in one run."""

    def __init__(self, chance: Random, *, ttl: float, deaths: int = 3) -> None:
        self._chance = chance
        self._ttl = ttl
        self.deaths_left = deaths
        self.on = True
        self.latency = chance.choice(LATENCIES)
        self.fired: Counter[str] = Counter()
        calm = chance.random() < CALM
        self.rates = {
            kind: 0.0 if calm or chance.random() < 0.5 else chance.choice(RATES) for kind in KINDS
        }
        for death in (DEATH_BEFORE, DEATH_AFTER):
            self.rates[death] *= 0.2
        self.calm = not any(self.rates.values())

    @property
    def clock_is_true(self) -> bool:
        """Whether the store's clock has never been stepped in this run."""
        return not self.fired[CLOCK_BACK] and not self.fired[CLOCK_FORWARD]

    def note(self, kind: str) -> None:
        """This has happened now."""
        self.fired[kind] += 1

    def fate(self, ops: Sequence[Op], *, inline: bool, sender: str) -> Fate:
        """What becomes of this batch. Reads that the contract calls inline are never late."""
        chance = self._chance
        there, back = self.latency * chance.random(), self.latency * chance.random()
        if not self.on:
            return Fate(None, there, back)
        kind = self._kind(AT_OPERATIONS)
        if len(ops) > 1 and isinstance(ops[0], WRITES) and self._kind((TORN, TORN, TORN, TORN)):
            kind = TORN  # batches are few, so they fail more often
        if kind is None:
            return Fate(None, there, back)
        if kind in (DEATH_BEFORE, DEATH_AFTER):
            if not self.deaths_left:
                return Fate(None, there, back)
            self.deaths_left -= 1
        if inline and kind in (SLOW, SLOW_REPLY):
            return Fate(None, there, back)
        self.note(kind)
        if kind == SLOW:
            return Fate(None, self.late(), back)
        if kind == SLOW_REPLY:
            return Fate(None, there, self.late())
        if kind in (LOST, TORN) and self.half():
            return Fate(kind, there, self.late())  # it takes a while until that is noticed
        if kind in (DEATH_AFTER, PAUSE) and self.half():
            return Fate(kind, self.late(), back)  # it arrives when somebody else has taken over
        return Fate(kind, there, back)

    def renewal(self) -> str | None:
        """What becomes of a renewal of leases."""
        kind = self._kind(AT_RENEWALS) if self.on else None
        if kind is not None:
            self.note(kind)
        return kind

    def feed_breaks(self) -> bool:
        """Whether waiting for a change fails."""
        breaks = self.on and self._chance.random() < self.rates[FEED_BROKEN]
        if breaks:
            self.note(FEED_BROKEN)
        return breaks

    def patience(self) -> float | None:
        """Seconds after which a caller gives up; None: it waits as long as it takes."""
        if self.on and self._chance.random() < self.rates[IMPATIENCE]:
            return 3.0 * self._chance.random() ** 2
        return None

    def next_moment(self) -> tuple[float, str] | None:
        """Seconds until the next fault that is not bound to an operation; None: there is none."""
        kinds = [kind for kind in AT_MOMENTS if self.rates[kind]]
        if not kinds:
            return None
        return 0.5 + 5 * self._chance.random(), self._chance.choice(kinds)

    def late(self) -> float:
        """Seconds that something slow takes: up to longer than a write may take."""
        return (LATEST - 1) * self._chance.random() ** 2

    def standstill(self) -> float:
        """Seconds that something stands still: from shorter than a lease to several leases."""
        return self._ttl * (0.2 + 2.8 * self._chance.random())

    def choose(self, count: int) -> int:
        """One of so many."""
        return self._chance.randrange(count)

    def half(self) -> bool:
        return self._chance.random() < 0.5

    def _kind(self, kinds: tuple[str, ...]) -> str | None:
        drawn = self._chance.random()
        for kind in kinds:
            drawn -= self.rates[kind]
            if drawn < 0:
                return kind
        return None
