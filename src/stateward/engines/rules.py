"""Rules of the contract, as pure functions, for engines that decide in Python.

A comparison of those engines finds no mistake made here: the cases of the conformance suite do,
which state for each rule what must come of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stateward.ops import (
    Absent,
    Acquire,
    Check,
    CommitsAt,
    DocumentAt,
    Fence,
    Fetch,
    Head,
    Lease,
    LogAt,
    NotDroppedSince,
    Release,
    Renew,
    SetHead,
    StatusIn,
    Value,
)


class StoredHead(Protocol):
    """A head as an engine changes it."""

    owner: str
    status: str
    label: str
    due: float | None
    retain: float | None
    version: int
    stamp: str
    commits: int
    dropped: float

    def set_expiry(self, expires: float | None) -> None: ...
    def restart_retention(self, now: float) -> None: ...


def holds(
    check: Check, exists: bool, head: Head | StoredHead, documents: Mapping[str, Value]
) -> bool:
    """Return whether a check is met; fences and holders are asked about before."""
    if type(check) is NotDroppedSince:
        return head.dropped < check.at
    if type(check) is LogAt:
        return check.version == head.version and check.stamp in (None, head.stamp)
    if type(check) is DocumentAt:
        value = documents.get(check.name)
        if value is None:
            return check.version == 0
        return check.version == value.version and check.stamp in (None, value.stamp)
    if type(check) is Absent:
        return not exists
    if type(check) is StatusIn:
        return head.status in check.statuses
    if type(check) is CommitsAt:
        return head.commits == check.commits
    return True


def set_head(write: SetHead, head: StoredHead, now: float) -> None:
    """Change the fields that the write names."""
    if write.status is not None:
        head.status = write.status
    if write.label is not None:
        head.label = write.label
    if write.owner is not None:
        head.owner = write.owner
    if write.due is not None:
        head.due = write.due or None
    if write.due_in is not None:
        head.due = now + write.due_in
    if write.retain is not None:
        head.retain = write.retain or None
        if head.retain is None:
            head.set_expiry(None)
        else:
            head.restart_retention(now)


def is_held(lease: Lease | None, now: float) -> bool:
    """Return True if the lease is held; a clock set back before its grant ends a lease."""
    return lease is not None and lease.nonce != "" and lease.granted <= now < lease.until


def is_fenced(lease: Lease | None, fence: Fence | Renew | Release) -> bool:
    """Return True unless token and nonce are those of the last grant, not yet released."""
    if lease is None or not lease.nonce or lease.nonce != fence.nonce:
        return True
    return fence.token is not None and fence.token != lease.token


def blocks(lease: Lease | None, acquire: Acquire, now: float) -> bool:
    """Return True if another holder's lease stands in the way."""
    return lease is not None and lease.nonce != acquire.nonce and is_held(lease, now)


def grant(lease: Lease | None, acquire: Acquire, now: float) -> Lease:
    """The lease after a permitted acquire: the same one extended, or one with a larger token."""
    if lease is not None and lease.nonce == acquire.nonce:
        return extend(lease, acquire.ttl, now)
    last = lease.token if lease is not None else 0
    token = max(last + 1, int(now * 1_000_000))
    return Lease(token, acquire.nonce, acquire.holder, now, now + acquire.ttl)


def extend(lease: Lease, ttl: float, now: float) -> Lease:
    """The lease after a permitted renewal; a clock stepped back must not make it look future."""
    granted = min(lease.granted, now)
    return Lease(lease.token, lease.nonce, lease.holder, granted, now + ttl)


def released(lease: Lease) -> Lease:
    """Return the lease after its release: without a holder, but with its token."""
    return Lease(lease.token, "", "", lease.granted, 0.0)


def masked(lease: Lease | None) -> Lease | None:
    """Return a held lease without its nonce, as the nonce would let others pass for the holder."""
    if lease is None or not lease.nonce:
        return None
    return Lease(lease.token, "", lease.holder, lease.granted, lease.until)


def changed_since(
    fetch: Fetch, documents: dict[str, Value]
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the documents that the caller lacks, and the names of those it has."""
    versions = fetch.known
    if not versions:
        return documents, ()
    same = {n for n, value in documents.items() if versions.get(n) == (value.version, value.stamp)}
    names = documents if fetch.all_documents else fetch.documents
    lacking = {name: value for name, value in documents.items() if name not in same}
    return lacking, tuple(name for name in names if name in same)
