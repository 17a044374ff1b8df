"""When to prune the log of a document history, and which of its records to remove. No I/O."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import LONGEST, MOST, seconds
from stateward.ops import Append, Check, Entity, Head, LogAt, Replace, SetHead, Trim, Write
from stateward.state.document_record import DocumentRecord
from stateward.state.past import Keep, kept_since

ROOM = 4 << 20  # bytes of records that are read or moved at once, roughly
SPARSE = 8  # times as many numbers as records: then they are moved together
THOROUGH = 8  # times within `Keep.within` at least that a log is searched for old records
MOST_PLANNED = 10_000
OFTEN = 16  # records after which to look for some that need not be kept any longer


class Prunings:
    """The next version at which to look at each log, as far as this process knows."""

    def __init__(self) -> None:
        self._next: dict[Entity, tuple[int, int]] = {}  # version when planned, version when due

    def due(self, entity: Entity, version: int) -> bool:
        """Return whether the log, now at this version, may be longer than necessary."""
        if version < OFTEN:
            return False
        since, due = self._next.get(entity, (version, 0))
        return version >= due if since < version else version % OFTEN == 0

    def plan(self, entity: Entity, version: int, due: int) -> None:
        """Plan the next look at the log for the version `due`."""
        if len(self._next) >= MOST_PLANNED:
            self._next.clear()  # without an entry here, the head's label decides
        self._next[entity] = (version, due)


class NewerRecord(Struct, frozen=True):
    """The record of a document that was read before, so the one that followed it in the log."""

    record: DocumentRecord
    count: int  # of records that are newer still
    until: float  # when the value of this record was replaced


class Plan(Struct, frozen=True):
    """When to look at a log again; stored in its head's label for later writers."""

    version: int = 0
    thorough: float = 0.0  # from this time on, also check the age of each record
    since: float = 0.0  # versions replaced before this time may have been removed
    most: int = MOST  # of a document with so many versions, older ones may have been removed

    @classmethod
    def of(cls, head: Head) -> Plan:
        try:
            version, thorough, *pruned = head.label.split(" ")
            since, most = pruned or ("0", str(MOST))  # none in the labels of older releases
            return cls(int(version), float(thorough), float(since), int(most))
        except ValueError:
            return cls()

    @property
    def label(self) -> SetHead:
        return SetHead(label=f"{self.version} {self.thorough:.0f} {self.since:.6f} {self.most}")

    def is_thorough(self, head: Head, now: float) -> bool:
        """Return whether records may be too old by now, or must be moved together."""
        sparse = head.version - head.base > SPARSE * max(OFTEN, head.live)
        return sparse or now >= self.thorough


class Pruning:
    """A search for the records that exceed what `keep` allows, from the newest to the oldest."""

    def __init__(self, keep: Keep, now: float) -> None:
        self.gone: set[int] = set()
        self._records: list[DocumentRecord] = []
        self._most = max(1, keep.versions)
        self._now, self._since = now, kept_since(keep, now)
        self._span = seconds(keep.within) or LONGEST
        self._newer: dict[str, NewerRecord] = {}

    def take(self, record: DocumentRecord) -> None:
        """Add the next older record of the log."""
        newer = self._newer.get(record.document)
        removal = record.json is None
        count, until = 0, record.at if removal else float("inf")
        if newer is not None and newer.record.json is None and removal:  # the newer changed nothing
            self.gone.add(newer.record.seq)
            count, until = newer.count, newer.until
        elif newer is not None:
            count, until = newer.count + 1, newer.record.at
        self._newer[record.document] = NewerRecord(record, count, until)
        self._records.append(record)
        if count >= self._most or until < self._since:
            self.gone.add(record.seq)

    def writes(
        self, head: Head, before: Plan, *, bare: bool
    ) -> tuple[tuple[Write, ...], tuple[Check, ...], Plan]:
        """Return the writes to the log, the checks they need, and when to look again.

        `before` is the previous plan; `bare`: this search was not thorough.

        A removed entry leaves a trace until all entries before it are gone, too, and the log is
        trimmed. If one old record prevents that, all remaining records are moved to the end in
        their order; the check then ensures that nothing is appended meanwhile.
        """
        remaining = [record for record in reversed(self._records) if record.seq not in self.gone]
        thorough = before.thorough if bare else self._now + self._span / THOROUGH
        # A later, larger `keep` must not take what is removed here for what never was.
        since = max(before.since, self._since) if self.gone else before.since
        most = min(before.most, self._most) if self.gone else before.most
        plan = Plan(head.version + max(OFTEN, 2 * len(remaining)), thorough, since, most)
        upto = remaining[0].seq - 1 if remaining else head.version
        size = sum(len(record.json or "") for record in remaining)
        sparse = head.version - upto > SPARSE * max(OFTEN, len(remaining))
        if not bare and sparse and size <= ROOM:
            plan = replace(plan, version=plan.version + len(remaining))
            moved = Append(tuple(record.moved for record in remaining))
            unchanged = LogAt(head.version, head.stamp)
            return (plan.label, moved, Trim(head.version)), (unchanged,), plan
        writes: tuple[Write, ...] = ()
        within = dict.fromkeys(seq for seq in sorted(self.gone) if seq > upto)
        if within:
            writes = (Replace(within),)
        if upto > head.base:
            writes = (*writes, Trim(upto))
        return (plan.label, *writes), (), plan
