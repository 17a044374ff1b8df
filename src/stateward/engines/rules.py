"""The lease rules of the contract, as pure functions, for engines that decide in Python.

Checks and heads are not here, though two engines decide them alike: the memory engine is what
others are compared with, and a reference that shares code with what is compared to it finds
nothing.
"""

from __future__ import annotations

from stateward.ops import Acquire, Fence, Lease, Release, Renew


def is_held(lease: Lease | None, now: float) -> bool:
    """Somebody holds it now. A clock before `granted` was stepped back: counts as expired."""
    return lease is not None and lease.nonce != "" and lease.granted <= now < lease.until


def is_fenced(lease: Lease | None, fence: Fence | Renew | Release) -> bool:
    """Token and nonce must be those of the last grant, and it must not be released."""
    if lease is None or not lease.nonce or lease.nonce != fence.nonce:
        return True
    return fence.token is not None and fence.token != lease.token


def blocks(lease: Lease | None, acquire: Acquire, now: float) -> bool:
    """Whether a lease of somebody else stands in the way."""
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
    """The lease after it was given back: nobody's, but its token is remembered."""
    return Lease(lease.token, "", "", lease.granted, 0.0)


def masked(lease: Lease | None) -> Lease | None:
    """The lease as others may see it: whoever knew the nonce could pass for the holder."""
    if lease is None or not lease.nonce:
        return None
    return Lease(lease.token, "", lease.holder, lease.granted, lease.until)
