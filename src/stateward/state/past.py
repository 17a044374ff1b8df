"""A document's past: the records of its writes, and what they say of any moment. No I/O.

Every write of a user's or shared document appends a record to its entity's log, in the same
commit: the document's name and its new value. The engine gives the record its number, its time and
the stamp that the document's new version has, too. Version numbers follow from the document's
present one, counted back. A writer that has read the document before it writes says the version in
its record, so that writes of others who keep no history are noticed: what lies before such a gap is
known, but not until when it held.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from stateward.codec import LONGEST, MOST, Json, Retention, decode, encode, seconds, shown
from stateward.errors import InvalidInput, NotKept, SchemaError
from stateward.ops import (
    Append,
    Check,
    Entity,
    Entry,
    Fetched,
    Head,
    LogAt,
    Replace,
    SetHead,
    Trim,
    Value,
    Write,
)
from stateward.records import Document, DocumentVersion, moment

NINETY_DAYS = timedelta(days=90)
REACHES = "its history does not reach back that far"
ROOM = 4 << 20  # bytes of records that are read or moved at once, roughly
SPARSE = 8  # times as many numbers as records: then they are moved together
THOROUGH = 8  # times within `Keep.within` at least that a log is looked at for old records
MOST_PLANNED = 10_000
OFTEN = 16  # records after which to look for some that need not be kept any longer


class Keep(Struct, frozen=True):
    """How much of a document's past is kept: `open(…, keep=…)`.

    The last `versions`, including the current one, and of these only those that were current
    `within` that time (a timedelta or seconds; None: no limit). `versions=0` keeps no past.
    """

    versions: int = 100
    within: Retention = NINETY_DAYS

    def __post_init__(self) -> None:
        if type(self.versions) is not int or not 0 <= self.versions <= MOST:
            raise InvalidInput(
                f"keep is a number of versions of at least 0, or a Keep, not {shown(self.versions)}"
            )
        seconds(self.within)

    @classmethod
    def of(cls, keep: int | Keep) -> Keep:
        """What was given, if it is a number of versions."""
        return keep if isinstance(keep, Keep) else cls(keep)


def kept_since(keep: Keep, now: float) -> float:
    """What did not hold any more by then is not kept."""
    span = seconds(keep.within)
    return float("-inf") if span is None else now - span


KEEP = Keep()


class Prunings:
    """When to look at a log the next time, as far as this process knows."""

    def __init__(self) -> None:
        self._next: dict[Entity, tuple[int, int]] = {}  # since which version, and at which

    def due(self, entity: Entity, version: int) -> bool:
        """Whether the log, which has this version now, may be longer than need be."""
        if version < OFTEN:
            return False
        since, due = self._next.get(entity, (version, 0))
        return version >= due if since < version else version % OFTEN == 0

    def plan(self, entity: Entity, version: int, due: int) -> None:
        """Look at it again at the version `due`."""
        if len(self._next) >= MOST_PLANNED:
            self._next.clear()  # those who do not know look at the head
        self._next[entity] = (version, due)


# --- records ----------------------------------------------------------------------------


class RecordBody(Struct, frozen=True):
    """A record as its entry holds it. One that was moved says where it comes from."""

    document: str
    version: int | None = None
    after: str | None = None
    at: float | None = None
    stamp: str | None = None
    value: msgspec.Raw = msgspec.Raw()


class DocumentRecord(Struct, frozen=True):
    """One write of a document: its new value, or None if it was removed."""

    seq: int
    document: str
    json: str | None
    version: int | None  # where the writer knew it
    after: str | None  # the stamp of what was there before, where the writer had read it
    at: float
    stamp: str

    @property
    def moved(self) -> str:
        """The body of the same record at another place of the log."""
        origin = (self.at, self.stamp)
        return record(self.document, self.json, self.version, self.after, origin)


_decoder = msgspec.json.Decoder(RecordBody)


def record(
    name: str,
    text: str | None,
    version: int | None = None,
    after: str | None = None,
    origin: tuple[float, str] | None = None,
) -> str:
    """The body of a record. `origin` is its time and stamp, where they are not the entry's."""
    known = "" if version is None else f',"version":{version}'
    if after is not None:
        known += f',"after":{encode(after, "a stamp")}'
    if origin is not None:
        known += f',"at":{origin[0]!r},"stamp":{encode(origin[1], "a stamp")}'
    value = "" if text is None else f',"value":{text}'
    return f'{{"document":{encode(name, "a name")}{known}{value}}}'


def read_record(entry: Entry) -> DocumentRecord:
    """The record that an entry of such a log holds."""
    try:
        body = _decoder.decode(entry.body)
    except msgspec.DecodeError as error:
        raise SchemaError(
            f"the entry {entry.seq} is not a record of a document's history ({error}): the store "
            "is "
            "damaged or was changed by something else; restore it from a backup"
        ) from error
    return DocumentRecord(
        entry.seq,
        body.document,
        bytes(body.value).decode() or None,
        body.version,
        body.after,
        entry.at if body.at is None else body.at,
        entry.stamp if body.stamp is None else body.stamp,
    )


def bare_records(fetched: Fetched) -> list[DocumentRecord]:
    """The records of entries that came without details, none of which is missing in between.

    As if each were written just now.
    """
    bodies = fetched.lines.split("\n") if fetched.lines else []
    numbered = enumerate(bodies, fetched.first)
    return [read_record(Entry(seq, float("inf"), body, "")) for seq, body in numbered]


def check_version(version: Any) -> int:
    """The number of a version; for a difference, a Document will do as well."""
    if type(version) is not int or version < 1:
        raise InvalidInput(f"a version is a whole number of at least 1, not {shown(version)}")
    return version


# --- what the records say ---------------------------------------------------------------


class Known(Struct, frozen=True):
    """What a document was from a moment on, until the next one. `json=None`: it was missing."""

    json: str | None
    version: int | None  # None: it cannot be told; 0: it was missing
    stamp: str | None
    at: float
    counts: bool = True  # the one before it has one number less: nobody wrote in between unseen
    held: bool = True  # until the next one. False: somebody may have written in between
    after: str | None = None  # the stamp of the one before it, where that is said

    @property
    def value(self) -> Json:
        return {} if self.json is None else decode(self.json)

    def began_by(self, time: float) -> bool:
        """Whether it was so at that time or before; to the microsecond, as times are told."""
        return moment(self.at) <= moment(time)

    def document(self) -> Document:
        """The document as it was."""
        if self.json is None:
            return Document({})
        return Document(
            self.value, -1 if self.version is None else self.version, self.stamp, self.at
        )

    def listed(self) -> DocumentVersion:
        """The same in a list of them."""
        value = None if self.json is None else self.value
        return DocumentVersion(value, self.version, self.stamp, self.at)


MISSING = Known(None, 0, None, 0.0)


class Past:
    """One document's past, put together from the newest record to the oldest."""

    def __init__(self, name: str, value: Value | None, head: Head, keep: Keep, now: float) -> None:
        self.name = name
        self.value = value
        self.life = head.life
        self.versions: list[Known] = []  # the newest first
        self.ended = False  # what is older is not kept
        self.exhausted = False  # there is no older record
        self._off = keep.versions == 0
        self._most = max(1, keep.versions)
        self._since = kept_since(keep, now)
        self._complete = head.base == 0 and head.live == head.version  # nothing was removed yet
        if value is not None:  # should it have no record of its own, what was before is not known
            self.versions = [Known(value.json, value.version, value.stamp, value.updated, False)]

    def take(self, said: DocumentRecord) -> None:
        """The next older record of the log."""
        if said.document != self.name or self.ended:
            return
        newer = self.versions[-1] if self.versions else None
        if self.value is not None and said.stamp == self.value.stamp:
            present = self.versions[-1]
            self.versions[-1] = msgspec.structs.replace(present, counts=True, after=said.after)
            return
        if said.json is None and newer is not None and newer.json is None:
            self.versions.pop()  # the newer one removed nothing
            newer = self.versions[-1] if self.versions else None
        if newer is not None and (len(self.versions) >= self._most or newer.at < self._since):
            self.ended = True
            return
        self.versions.append(_older(said, newer))

    def at(self, time: float) -> Known:
        """What it was at that time, or `NotKept`."""
        versions = self.numbered()
        for known in versions:
            if known.began_by(time):
                if not known.held:
                    raise self._not_kept("others wrote it without keeping its history", None)
                return known
        full = self.ended or (len(versions) >= self._most and not self._complete)
        if versions and (full or not _begins(versions[-1])):
            raise self._not_kept(REACHES, versions[-1].at)
        if self._off or (time < self._since and not self._complete):
            raise self._not_kept(REACHES, self._since)
        return MISSING

    def version(self, number: int) -> Known:
        """That version of the document that is there now, or `NotKept`."""
        if self.value is None:
            raise self._not_kept("it is missing; ask for a time, with at=", None)
        if number > self.value.version:
            raise self._not_kept(f"its newest version is {self.value.version}", None)
        since = self.value.updated
        for known in self.numbered():
            if known.json is None:
                break
            if known.version == number:
                return known
            since = known.at
        raise self._not_kept(f"version {number} is not kept", since)

    def previous(self) -> Known:
        """What it was before its last change, or `NotKept`."""
        versions = self.numbered()
        if versions and (versions[0].json is None) == (self.value is None):
            if len(versions) > 1 and versions[1].held:
                return versions[1]
            if len(versions) == 1 and not self.ended and _begins(versions[0]):
                return MISSING
        raise self._not_kept("the previous version is not kept", None)

    def with_stamp(self, stamp: str | None) -> Known | None:
        """The version that this write made, as far back as was read."""
        return next((known for known in self.versions if known.stamp == stamp), None)

    @property
    def newest(self) -> float:
        """When it last changed."""
        return self.versions[0].at if self.versions else 0.0

    def has(self, number: int) -> bool:
        """Whether there is no need to look further back for that version."""
        if self.value is None:
            return True
        oldest = self.versions[-1].version
        return oldest is not None and oldest <= number

    def reaches(self, time: float) -> bool:
        """Whether there is no need to look further back for that time, or for its number."""
        found = [known for known in self.versions if known.began_by(time)]
        return bool(found) and any(known.version is not None for known in found)

    def numbered(self) -> list[Known]:
        """All there is, the newest first; earlier lives are counted from where they began."""
        found: list[Known] = []
        number: int | None = None
        begins = self._complete and self.exhausted and not self.ended
        for at, known in enumerate(reversed(self.versions)):
            if known.version is not None:
                number = known.version
            elif number is not None or (at == 0 and begins):
                number = (number or 0) + 1
            found.append(msgspec.structs.replace(known, version=number))
            number = number if known.held else None
        return found[::-1]

    def _not_kept(self, why: str, since: float | None) -> NotKept:
        told = None if since is None or since < 0 else moment(since)
        kept = "" if told is None else f"; it is kept since {told.isoformat()}"
        return NotKept(f"the past of the document {self.name!r}: {why}{kept}", since=told)


def _begins(oldest: Known) -> bool:
    """Whether the document was missing before its oldest record."""
    return oldest.version == 1 and oldest.counts


def _older(said: DocumentRecord, newer: Known | None) -> Known:
    """What this record says, before what is newer."""
    version, held = (0, True) if said.json is None else (said.version, True)
    if newer is None:  # it is missing now: if this is not its removal, nothing says since when
        held = said.json is None
    elif newer.after is not None and newer.after != said.stamp:
        held = False
    elif newer.version:  # a put: this is its predecessor, or a removal before a first version
        counted = newer.version - 1
        if version is None and newer.counts:
            version = counted or None
        held = version == counted
    return Known(said.json, version, said.stamp, said.at, held=held, after=said.after)


# --- what need not be kept --------------------------------------------------------------


class Newer(Struct, frozen=True):
    """The last record of a document that was looked at: what is older held until then."""

    record: DocumentRecord
    count: int  # of those that are newer still
    until: float  # so long it held itself


class Plan(Struct, frozen=True):
    """When to look at a log again, kept in its head's label for whoever writes to it then."""

    version: int = 0
    thorough: float = 0.0  # from this time on, also at how old each record is

    @classmethod
    def of(cls, head: Head) -> Plan:
        try:
            version, thorough = head.label.split(" ")
            return cls(int(version), float(thorough))
        except ValueError:
            return cls()

    @property
    def label(self) -> SetHead:
        return SetHead(label=f"{self.version} {self.thorough:.0f}")

    def is_thorough(self, head: Head, now: float) -> bool:
        """Whether records may be too old by now, or must be moved together."""
        sparse = head.version - head.base > SPARSE * max(OFTEN, head.live)
        return sparse or now >= self.thorough


class Pruning:
    """Which records of a log are beyond what is kept, told from the newest to the oldest."""

    def __init__(self, keep: Keep, now: float) -> None:
        self.gone: set[int] = set()
        self._records: list[DocumentRecord] = []
        self._most = max(1, keep.versions)
        self._now, self._since = now, kept_since(keep, now)
        self._span = seconds(keep.within) or LONGEST
        self._newer: dict[str, Newer] = {}

    def take(self, said: DocumentRecord) -> None:
        """The next older record of the log."""
        newer = self._newer.get(said.document)
        deletes = said.json is None
        count, until = 0, said.at if deletes else float("inf")
        if newer is not None and newer.record.json is None and deletes:  # the newer removed nothing
            self.gone.add(newer.record.seq)
            count, until = newer.count, newer.until
        elif newer is not None:
            count, until = newer.count + 1, newer.record.at
        self._newer[said.document] = Newer(said, count, until)
        self._records.append(said)
        if count >= self._most or until < self._since:
            self.gone.add(said.seq)

    def writes(
        self, head: Head, before: Plan | None
    ) -> tuple[tuple[Write, ...], tuple[Check, ...], Plan]:
        """What to write to the log, if what holds, and when to look again.

        `before` is the plan there was, if this look was not thorough.

        An entry that is removed leaves a trace, until all before it are gone and the log is
        trimmed. If one old record keeps that from being done, all that are kept move to the end,
        where they stay in their order: so nothing may be appended meanwhile.
        """
        kept = [said for said in reversed(self._records) if said.seq not in self.gone]
        thorough = self._now + self._span / THOROUGH if before is None else before.thorough
        plan = Plan(head.version + max(OFTEN, 2 * len(kept)), thorough)
        upto = kept[0].seq - 1 if kept else head.version
        size = sum(len(said.json or "") for said in kept)
        writes: tuple[Write, ...] = ()
        sparse = head.version - upto > SPARSE * max(OFTEN, len(kept))
        if before is None and sparse and size <= ROOM:
            plan = Plan(plan.version + len(kept), plan.thorough)
            moved = Append(tuple(said.moved for said in kept))
            same = LogAt(head.version, head.stamp)
            return (plan.label, moved, Trim(head.version)), (same,), plan
        within = dict.fromkeys(seq for seq in sorted(self.gone) if seq > upto)
        if within:
            writes = (Replace(within),)
        if upto > head.base:
            writes = (*writes, Trim(upto))
        return (plan.label, *writes), (), plan
