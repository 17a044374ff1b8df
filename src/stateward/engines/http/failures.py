"""Failures on the way to the service, with what became of the write."""

from __future__ import annotations

import ssl

from stateward.errors import AccessRefused, StoreUnavailable


class Unanswered(StoreUnavailable):
    """The connection ended before anything was answered.

    One that was idle had then, most likely, been closed by the other side already.
    """


class Silent(Unanswered):
    """Nothing was answered in time.

    A firewall or load balancer may have forgotten an idle connection without ending it.
    """


def unreachable(error: BaseException, service: str) -> StoreUnavailable:
    """Return the error of a connection that failed: nothing was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessRefused(
            f"{service}: its certificate is not accepted ({error.verify_message}). It must be made "
            "for the host in the URL, be valid today, and be signed by an authority that this "
            "machine trusts or that ca=FILE names",
            applied="no",
        )
    reason = str(error) or "it took too long"
    return StoreUnavailable(f"{service} cannot be reached: {reason}", applied="no")


def lost(error: BaseException, service: str, *, begun: bool) -> StoreUnavailable:
    """Return the error of a lost answer: the request may have arrived."""
    if isinstance(error, TimeoutError):
        silent = StoreUnavailable if begun else Silent
        return silent(f"{service} did not answer in time", applied="unknown")
    kind = StoreUnavailable if begun else Unanswered
    reason = str(error) or "end of the connection"
    return kind(f"{service} ended the connection ({reason})", applied="unknown")
