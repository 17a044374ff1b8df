"""The past of a document, put together from the records of its writes. No I/O.

Version numbers follow from the document's present one, counted back. Where a record shows that
something else wrote the document without a record, the version before the gap is known, but not
until when it was current.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import MOST, Json, Retention, decode, seconds, shown
from stateward.errors import InvalidInput, NotKept
from stateward.ops import Head, Value
from stateward.records import Document, DocumentVersion, moment
from stateward.state.document_record import DocumentRecord

NINETY_DAYS = timedelta(days=90)
REACHES = "its history does not reach back that far"


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
        """Return `keep`, made of a number of versions if it is one."""
        return keep if isinstance(keep, Keep) else cls(keep)


def kept_since(keep: Keep, now: float) -> float:
    """Return the time before which versions that were no longer current are not kept."""
    span = seconds(keep.within)
    return float("-inf") if span is None else now - span


KEEP = Keep()


def check_version(version: Any) -> int:
    """Return the number of a version, or raise `InvalidInput`."""
    if type(version) is not int or version < 1:
        raise InvalidInput(f"a version is a whole number of at least 1, not {shown(version)}")
    return version


class PastState(Struct, frozen=True):
    """A version of a document, current from `at` on. `json=None`: the document was missing."""

    json: str | None
    version: int | None  # None: unknown; 0: the document was missing
    stamp: str | None
    at: float
    follows: bool = True  # its number is one more than that of the version before
    unbroken: bool = True  # it was current until the next one: no write without a record between
    after: str | None = None  # the stamp of the version before, where it was recorded

    @property
    def value(self) -> Json:
        return {} if self.json is None else decode(self.json)

    def began_by(self, time: float) -> bool:
        """Return whether it was written by then, in whole microseconds as callers see times."""
        return moment(self.at) <= moment(time)

    def document(self) -> Document:
        """Return the document as it was."""
        if self.json is None:
            return Document({})
        return Document(
            self.value, -1 if self.version is None else self.version, self.stamp, self.at
        )

    def listed(self) -> DocumentVersion:
        """Return the version as an item of the document's history."""
        value = None if self.json is None else self.value
        return DocumentVersion(value, self.version, self.stamp, self.at)


MISSING = PastState(None, 0, None, 0.0)


class Past:
    """The past of one document, built from the newest record to the oldest."""

    def __init__(
        self,
        name: str,
        value: Value | None,
        head: Head,
        keep: Keep,
        now: float,
        pruned: tuple[float, int] = (0.0, MOST),  # since when, and how many: see `prune_plan.Plan`
    ) -> None:
        self.name = name
        self.value = value
        self.life = head.life
        self.versions: list[PastState] = []  # the newest first
        self.ended = False  # older versions are not kept
        self.exhausted = False  # there is no older record
        self._off = keep.versions == 0
        self._most = max(1, keep.versions)
        self._since = kept_since(keep, now)
        self._pruned_before, self._pruned_at = pruned
        self._complete = head.base == 0 and head.live == head.version  # no record was removed yet
        if value is not None:  # `follows` stays False unless the value's own record is read
            current = PastState(value.json, value.version, value.stamp, value.updated, False)
            self.versions = [current]

    def take(self, record: DocumentRecord) -> None:
        """Add the next older record of the log."""
        if record.document != self.name or self.ended:
            return
        newer = self.versions[-1] if self.versions else None
        if self.value is not None and record.stamp == self.value.stamp:
            present = self.versions[-1]
            self.versions[-1] = replace(present, follows=True, after=record.after)
            return
        if record.json is None and newer is not None and newer.json is None:
            self.versions.pop()  # the newer one removed nothing
            newer = self.versions[-1] if self.versions else None
        if newer is not None and (len(self.versions) >= self._most or newer.at < self._since):
            self.ended = True
            return
        self.versions.append(_version_before(record, newer))

    def at(self, time: float) -> PastState:
        """Return the version that was current at this time, or raise `NotKept`."""
        versions = self.numbered()
        for version in versions:
            if version.began_by(time):
                if not version.unbroken:
                    raise self._not_kept("others wrote it without keeping its history", None)
                return version
        most = min(self._most, self._pruned_at)
        full = self.ended or (len(versions) >= most and not self._complete)
        if versions and (full or not _is_first(versions[-1])):
            raise self._not_kept(REACHES, versions[-1].at)
        since = max(self._since, self._pruned_before)  # `keep` may have been raised
        if self._off or (time < since and not self._complete):
            raise self._not_kept(REACHES, since)
        return MISSING

    def version(self, number: int) -> PastState:
        """Return this version of the document as it exists now, or raise `NotKept`."""
        if self.value is None:
            raise self._not_kept("it is missing; ask for a time, with at=", None)
        if number > self.value.version:
            raise self._not_kept(f"its newest version is {self.value.version}", None)
        since = self.value.updated
        for version in self.numbered():
            if version.json is None:
                break
            if version.version == number:
                return version
            since = version.at
        raise self._not_kept(f"version {number} is not kept", since)

    def previous(self) -> PastState:
        """Return the version before the last change, or raise `NotKept`."""
        versions = self.numbered()
        if versions and (versions[0].json is None) == (self.value is None):
            if len(versions) > 1 and versions[1].unbroken:
                return versions[1]
            if len(versions) == 1 and not self.ended and _is_first(versions[0]):
                return MISSING
        raise self._not_kept("the previous version is not kept", None)

    def with_stamp(self, stamp: str | None) -> PastState | None:
        """Return the version that this write made, as far back as was read."""
        return next((version for version in self.versions if version.stamp == stamp), None)

    @property
    def newest(self) -> float:
        """The time of the last change."""
        return self.versions[0].at if self.versions else 0.0

    def has(self, number: int) -> bool:
        """Return whether older records are not needed to find this version."""
        if self.value is None:
            return True
        oldest = self.versions[-1].version
        return oldest is not None and oldest <= number

    def reaches(self, time: float) -> bool:
        """Return whether older records are not needed to find the version at that time."""
        return any(v.began_by(time) and v.version is not None for v in self.versions)

    def numbered(self) -> list[PastState]:
        """Return all versions, newest first; earlier lives are counted from their beginning."""
        versions: list[PastState] = []
        number: int | None = None
        begins = self._complete and self.exhausted and not self.ended
        for at, version in enumerate(reversed(self.versions)):
            if version.version is not None:
                number = version.version
            elif number is not None or (at == 0 and begins):
                number = (number or 0) + 1
            versions.append(replace(version, version=number))
            number = number if version.unbroken else None
        return versions[::-1]

    def _not_kept(self, why: str, since: float | None) -> NotKept:
        start = None if since is None or since < 0 else moment(since)
        reach = "" if start is None else f"; it is kept since {start.isoformat()}"
        return NotKept(f"the past of the document {self.name!r}: {why}{reach}", since=start)


def _is_first(oldest: PastState) -> bool:
    """Return whether the document was missing before its oldest record."""
    return oldest.version == 1 and oldest.follows


def _version_before(record: DocumentRecord, newer: PastState | None) -> PastState:
    """Return the version that a record made, given the next newer version."""
    version, unbroken = (0, True) if record.json is None else (record.version, True)
    if newer is None:  # missing now: unless this is its removal, the time of that is unknown
        unbroken = record.json is None
    elif newer.after is not None and newer.after != record.stamp:
        unbroken = False
    elif newer.version:  # a put: this is its predecessor, or a removal before a first version
        predecessor = newer.version - 1
        if version is None and newer.follows:
            version = predecessor or None
        unbroken = version == predecessor
    return PastState(
        record.json, version, record.stamp, record.at, unbroken=unbroken, after=record.after
    )
