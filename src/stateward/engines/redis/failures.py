"""The server's failures in words, with what became of the write."""

from __future__ import annotations

import ssl
from typing import Literal

from stateward.errors import (
    AccessRefused,
    InvalidInput,
    StoreFull,
    StoreUnavailable,
    TooFewReplicas,
)

MaybeApplied = Literal["no", "unknown"]

# What an error reply begins with when the command, or the script, did not run at all.
NOT_RUN = {
    "NOSCRIPT": "the server has forgotten a script and did not take it again",
    "LOADING": "the server is still loading its data into memory; it will answer when it is done",
    "BUSY": "the server is busy with a script of somebody else",
    "OOM": "the server is out of memory: it has reached its maxmemory. Give it more, or run "
    "`stateward sweep` to remove what has expired",
    "READONLY": "the server is a replica and takes no writes; a failover may be under way",
    "MASTERDOWN": "the server is a replica that has lost its primary",
    "CLUSTERDOWN": "the cluster is down: some of its slots are served by no node",
    "TRYAGAIN": "the cluster is moving this slot; it will answer when that is done",
    "MISCONF": "the server cannot save its data and therefore takes no writes; see its log",
    "NOREPLICAS": "the server has fewer replicas than min-replicas-to-write and takes no writes",
    "NOAUTH": "the server wants a password: redis://user:password@host",
    "WRONGPASS": "the server refused the user name or the password",
    "NOPERM": "the server's access rules (ACL) do not permit this user what Stateward needs",
    "MOVED": "the server is part of a cluster: use redis+cluster://",
    "ASK": "the server is part of a cluster: use redis+cluster://",
    "CROSSSLOT": "the server is part of a cluster: use redis+cluster://",
    "UNBLOCKED": "the server has become a replica meanwhile",
}

# The same in a cluster that was followed for as long as it is worth it.
RESTLESS = {
    "MOVED": "the cluster has sent this from node to node again and again: its slots are moving",
    "ASK": "the cluster has sent this from node to node again and again: its slots are moving",
}

# Parts of errors of the code ERR that are about the server, not about what it was asked.
OF_THE_SERVER = (
    *("unknown command", "unknown subcommand", "Unknown Redis command", "not allowed"),
    *("max number of clients", "cluster support disabled", "without any password configured"),
)

REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM")

# What a server answers that is no primary any more.
DEMOTED = ("READONLY", "MASTERDOWN", "UNBLOCKED")


class Demoted(StoreUnavailable):
    """The server is a replica now: what it answers may be old, and it stays so."""


def code_of(error: BaseException) -> str:
    """Return the first word of an error reply, which older servers put further in for scripts."""
    message = str(error)
    for code in NOT_RUN:
        if message.startswith(code) or f"-{code} " in message:
            return code
    if "non local key" in message:  # see lua/alone.lua: nothing was written before that
        return "TRYAGAIN"
    if "max number of clients" in message:
        return "CLIENTS"
    return message.partition(" ")[0]


def refused(error: Exception, server: str, *, cluster: bool = False) -> StoreUnavailable:
    """Return the error for an error reply. Most of these replies prove that nothing was run."""
    code = code_of(error)
    if "without any password configured" in str(error):
        code, reason = "NOAUTH", "the server has no password: leave it out of the URL"
    elif code == "CLIENTS":
        reason = "the server has too many clients; raise its maxclients or use fewer replicas"
    elif cluster and code in RESTLESS:
        reason = RESTLESS[code]
    elif code in NOT_RUN:
        reason = NOT_RUN[code]
    else:
        return StoreUnavailable(f"{server}: the server failed: {error}", applied="unknown")
    return _kind(code)(f"{server}: {reason} ({error})", applied="no")


def failure(
    error: Exception, server: str, *, cluster: bool = False
) -> StoreUnavailable | InvalidInput:
    """Return the error for the reply to an operation, which may itself be the mistake."""
    code, message = code_of(error), str(error)
    deployed = any(part in message for part in OF_THE_SERVER)
    if code not in ("ERR", "WRONGTYPE") or deployed:
        return refused(error, server, cluster=cluster)
    reason = (
        "a key of Stateward has a value that another program has stored there: remove it"
        if code == "WRONGTYPE"
        else "the call has a value that the server does not take, and would be refused again"
    )
    return InvalidInput(f"{server}: {reason} ({error})")


def _kind(code: str) -> type[StoreUnavailable]:
    if code in REFUSED:
        return AccessRefused
    if code in DEMOTED:
        return Demoted
    return {"OOM": StoreFull, "NOREPLICAS": TooFewReplicas}.get(code, StoreUnavailable)


def not_for_us(error: AccessRefused, sentinel: object) -> AccessRefused:
    """Return the error of a sentinel that refuses access: its login is not the server's."""
    if code_of(error.__cause__ or error) not in REFUSED:
        return error  # a certificate
    return AccessRefused(
        f"the sentinel at {sentinel} refuses access ({error.__cause__}). Sentinels have a login of "
        "their own, which is not what stands before the @: set sentinel_password=… in the URL, and "
        "sentinel_user=… for an ACL user, who needs +ping, +client|setname and +sentinel",
        applied="no",
    )


def unreachable(error: BaseException, server: str) -> StoreUnavailable:
    """Return the error of a connection that failed: nothing was sent."""
    if refusal := _certificate_refusal(error) or _certificate_refusal(error.__cause__):
        return AccessRefused(f"{server}: {refusal}", applied="no")
    reason = str(error) or "it took too long"
    return StoreUnavailable(f"{server} cannot be reached: {reason}", applied="no")


def _certificate_refusal(error: BaseException | None) -> str:
    """Say why a certificate was not accepted, and what to do; "" for any other error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not accepted ({error.verify_message}). It must be made "
            "for the host in the URL, be valid today, and be signed by an authority that this "
            "machine trusts or that ca=FILE names"
        )
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return (
            f"the server does not accept this client's certificate ({reason}); name one that it "
            "accepts with cert=FILE and key=FILE"
        )
    return ""


def lost(error: BaseException, server: str, applied: MaybeApplied = "unknown") -> StoreUnavailable:
    """Return the error of a lost answer: the request may have arrived."""
    what = "did not answer in time" if isinstance(error, TimeoutError) else "ended the connection"
    return StoreUnavailable(f"{server} {what} ({error})", applied=applied)
