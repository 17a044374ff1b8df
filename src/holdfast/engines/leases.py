"""The lease rules of the contract, as pure functions, for engines that decide in Python."""

from __future__ import annotations

from holdfast.ops import Acquire, Fence, Fenced, Head, Held, Lease, Release, Renew


def is_live(lease: Lease | None, now: float) -> bool:
    """Somebody holds it now. A clock before `granted` was stepped back: counts as expired."""
    return lease is not None and lease.nonce != "" and lease.granted <= now < lease.until


def refuse_fence(lease: Lease | None, fence: Fence | Renew | Release) -> Fenced | None:
    """Token and nonce must both be those of the last grant, and it must not be released."""
    if lease is None or lease.token != fence.token or lease.nonce != fence.nonce:
        return Fenced(token=fence.token, lease=lease if lease and lease.nonce else None)
    return None


def refuse_acquire(head: Head, acquire: Acquire, now: float) -> Held | None:
    """A live lease of another nonce refuses."""
    lease = head.lease
    if lease is None or lease.nonce == acquire.nonce or not is_live(lease, now):
        return None
    return Held(remaining=lease.until - now, holder=lease.holder, token=lease.token, head=head)


def grant(lease: Lease | None, acquire: Acquire, now: float) -> Lease:
    """The lease after a permitted acquire: the same one extended, or one with a larger token."""
    if lease is not None and lease.nonce == acquire.nonce:
        return Lease(lease.token, lease.nonce, lease.holder, lease.granted, now + acquire.ttl)
    last = lease.token if lease is not None else 0
    token = max(last + 1, int(now * 1_000_000))
    return Lease(token, acquire.nonce, acquire.holder, now, now + acquire.ttl)


def extend(lease: Lease, ttl: float, now: float) -> Lease:
    """The lease after a permitted renewal."""
    return Lease(lease.token, lease.nonce, lease.holder, lease.granted, now + ttl)


def released(lease: Lease) -> Lease:
    """The lease after it was given back: nobody's, but its token is remembered."""
    return Lease(lease.token, "", "", lease.granted, 0.0)
