"""An entity's head as a row of the file."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import astuple

from stateward.engine import GRACE
from stateward.engines.rules import masked
from stateward.ops import Head, Lease

HEAD_COLUMNS = 20  # columns for `head_of`
INDEXED = ("owner", "status", "label", "due", "sweep_at", "stale", "touched")


def head_of(columns: Sequence[Any]) -> Head:
    """The head of an entity that exists, of columns in the order of `Head`, the lease last."""
    token, nonce, holder, granted, until = columns[15:HEAD_COLUMNS]
    lease = Lease(token, "", holder, granted, until) if nonce else None  # masked
    return Head(True, *columns[:15], lease)  # type: ignore[call-arg]


# All of `Head` between `exists` and `lease`.
_head_fields = attrgetter(*Head.__struct_fields__[1:16])


class Row(msgspec.Struct):
    """One row of `entities`, in the order of the `head` query."""

    id: int
    owner: str = ""
    status: str = ""
    label: str = ""
    due: float | None = None
    sweep_at: float | None = None
    stale: int = 0
    touched: int | None = None
    life: int = 0
    retain: float | None = None
    expires: float | None = None
    created: float = 0.0
    updated: float = 0.0
    version: int = 0
    stamp: str = ""
    base: int = 0
    base_stamp: str = ""
    live: int = 0
    commits: int = 0
    dropped: float = 0.0
    token: int = 0
    nonce: str = ""
    holder: str = ""
    granted: float = 0.0
    until: float = 0.0
    restored: int = 0  # entries up to here say nothing of ops: a backup or `ops` has them

    def exists(self, now: float) -> bool:
        return self.expires is None or now < self.expires

    def tells_ops(self) -> bool:
        """Return True if the entry alone makes any op known."""
        return self.version > max(self.base, self.restored)

    def lease(self) -> Lease | None:
        """The last grant, released or not; None if there never was one."""
        if not self.token:
            return None
        return Lease(self.token, self.nonce, self.holder, self.granted, self.until)

    def set_lease(self, lease: Lease) -> None:
        self.token, self.nonce, self.holder = lease.token, lease.nonce, lease.holder
        self.granted, self.until = lease.granted, lease.until

    def head(self, exists: bool = True) -> Head:
        if not exists:
            return Head(commits=self.commits, life=self.life, dropped=self.dropped)
        lease = masked(self.lease()) if self.nonce else None
        return Head(True, *_head_fields(self), lease)  # type: ignore[call-arg]

    def begin_life(self) -> None:
        """Begin a new life: the remembered ops, the counters and the last token carry over."""
        self.life += 1
        self.stale = 1
        self.owner = self.status = self.label = self.stamp = self.base_stamp = self.nonce = (
            self.holder
        ) = ""
        self.due = self.retain = None
        self.version = self.base = self.live = self.restored = 0
        self.until = 0.0

    def restart_retention(self, now: float) -> None:
        """Restart the retention from now; it never ends before the current lease does."""
        if self.retain is not None:
            self.set_expiry(max(now + self.retain, self.until))

    def set_expiry(self, expires: float | None) -> None:
        """Set the expiry; the indexed `sweep_at` follows within a tenth of the grace."""
        self.expires = expires
        if expires is None:
            self.sweep_at = None
        elif self.sweep_at is None or not 0 <= expires + GRACE - self.sweep_at <= GRACE / 10:
            self.sweep_at = expires + GRACE

    def indexed(self) -> tuple[Any, ...]:
        """The columns that indexes cover, as `INDEXED` names them."""
        return astuple(self)[1:8]
