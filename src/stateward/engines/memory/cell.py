"""One entity as the memory engine holds it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from stateward.engine import KEY_SECONDS, KEYS_KEPT
from stateward.engines.rules import masked, released
from stateward.ops import Applied, Entry, Head, Lease, Value


class Stamp(NamedTuple):
    """The trace of an append, which stays whatever becomes of its entries."""

    last: int  # the number of its last entry
    op: str
    at: float
    key: str | None = None
    digest: int | None = None  # set if there is a key


@dataclass
class Cell:
    """One entity, with what is remembered of its earlier lives."""

    owner: str = ""
    status: str = ""
    label: str = ""
    due: float | None = None
    retain: float | None = None
    expires: float | None = 0.0  # 0: gone; None: for ever
    created: float = 0.0
    updated: float = 0.0
    version: int = 0
    stamp: str = ""
    base: int = 0
    base_stamp: str = ""
    commits: int = 0
    life: int = 0
    dropped: float = 0.0
    lease: Lease | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    stamps: list[Stamp] = field(default_factory=list)  # oldest first
    documents: dict[str, Value] = field(default_factory=dict)
    keys: dict[str, Stamp] = field(default_factory=dict)
    ops: dict[str, tuple[Applied, float]] = field(default_factory=dict)  # oldest first

    def exists(self, now: float) -> bool:
        return self.expires is None or now < self.expires

    def reborn(self) -> Cell:
        """Return a new life, which only remembers ops, counters and the last token."""
        return Cell(
            commits=self.commits,
            life=self.life + 1,
            dropped=self.dropped,
            lease=released(self.lease) if self.lease else None,
            ops=dict(self.ops),
        )

    def head(self, now: float) -> Head:
        if not self.exists(now):
            return Head(commits=self.commits, life=self.life, dropped=self.dropped)
        return Head(
            exists=True,
            owner=self.owner,
            status=self.status,
            label=self.label,
            due=self.due,
            retain=self.retain,
            expires=self.expires,
            created=self.created,
            updated=self.updated,
            version=self.version,
            stamp=self.stamp,
            base=self.base,
            live=len(self.entries),
            commits=self.commits,
            life=self.life,
            dropped=self.dropped,
            lease=masked(self.lease),
        )

    def set_expiry(self, expires: float | None) -> None:
        self.expires = expires

    def restart_retention(self, now: float) -> None:
        """Restart the retention from now; it never ends before the current lease does."""
        if self.retain is not None:
            held_until = self.lease.until if self.lease else 0.0
            self.expires = max(now + self.retain, held_until)

    def stamp_at(self, seq: int) -> str | None:
        """The op of the append that made entry `seq`; None if that is not known."""
        if seq == self.base:
            return self.base_stamp
        if not self.base < seq <= self.version:
            return None
        at = bisect_left(self.stamps, seq, key=lambda stamp: stamp.last)
        return self.stamps[at].op if at < len(self.stamps) else self.stamp


def is_remembered(keyed: Stamp, cell: Cell, now: float) -> bool:
    """Return True if the key of this append still counts."""
    return keyed.at > now - KEY_SECONDS and keyed.last > cell.version - KEYS_KEPT
