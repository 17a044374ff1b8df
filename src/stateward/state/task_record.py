"""What is recorded of a task: its call, its claims, its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from stateward.codec import Limits, canonical, check_commit, decode, encode, encode_checked
from stateward.errors import InvalidInput, TooLarge
from stateward.ops import Absent, Check, DocumentAt, Found, Head, Lease, Put, StatusIn, Value
from stateward.records import TaskInfo, moment

PENDING, RUNNING, COMPLETED, FAILED = "pending", "running", "completed", "failed"
CANCELLED = "cancelled"
UNFINISHED = StatusIn((PENDING, RUNNING))
CALL, RESULT, ERROR, DEATHS = "call", "result", "error", "deaths"
READING = (CALL, RESULT, ERROR, DEATHS)
DIED = Put(DEATHS, "{}")  # its version is the number of deaths
DEATHS_FORGIVEN = 3  # processes that may die with a task in hand, besides its attempts

ATTEMPTS = 3
FIRST_RETRY = 1.0  # seconds until a scheduled task that failed is tried again; doubles
LONGEST_RETRY = 300.0

Values = Mapping[str, Value]


class TaskOptions(Struct, frozen=True):
    """How a task is run; see `Store.once`."""

    owner: str | None = None
    ttl: float = 30.0
    wait: float | None = None
    attempts: int = ATTEMPTS
    at: datetime | float | None = None
    fingerprint: str | None = None
    retain: float | None = 30 * 86_400.0


class TaskCall(Struct, frozen=True):
    """What is kept of a call: who is to run it, and what makes two calls the same.

    Its arguments are kept until it has ended, so that a worker can run it, if they are JSON.
    """

    name: str
    fingerprint: str | None
    json: str
    arguments: int | None = None  # how many are kept; None: they cannot be

    @property
    def forgotten(self) -> tuple[Put, ...]:
        """What leaves no argument of it in the store, when nobody will run it any more."""
        return (Put(CALL, bare(self.name, self.fingerprint)),) if self.arguments else ()


def bare(name: str, fingerprint: str | None) -> str:
    """A call without its arguments."""
    return encode({"name": name, "fingerprint": fingerprint}, "the call")


class Claim(Struct, frozen=True):
    """The right to run a task now."""

    lease: Lease
    asked: float
    failures: int
    attempts: int | None  # of a scheduled task, which nobody delivers again
    deaths: int = 0  # processes that died with it in hand


class Finished(Struct, frozen=True):
    """The recorded result."""

    value: Any


def claimable(head: Head, values: Values) -> tuple[Check, ...]:
    """What must still hold when a task that was judged worth running is claimed.

    A failed one only with the very failure that was judged: another may have ended it meanwhile.
    """
    if not head.exists:
        return (Absent(),)
    if head.status == FAILED and ERROR in values:
        error = values[ERROR]
        return StatusIn((FAILED,)), DocumentAt(ERROR, error.version, error.stamp)
    return (UNFINISHED,)


def failures(values: Values) -> int:
    """How often the task has failed so far."""
    return int(decode(values[ERROR].json)["failures"]) if ERROR in values else 0


def deaths(values: Values) -> int:
    """How many processes have ended with the task in hand so far."""
    return values[DEATHS].version if DEATHS in values else 0


def scheduled_attempts(values: Values) -> int | None:
    """How often a scheduled task may fail; None for one that is delivered."""
    attempts: int | None = decode(values[CALL].json).get("attempts") if CALL in values else None
    return attempts


def is_runnable(values: Values) -> bool:
    """Whether all is kept that a worker needs to run it."""
    return CALL in values and "args" in decode(values[CALL].json)


def cancellation(values: Values, reason: str) -> dict[str, Any]:
    """What is recorded of a task that was cancelled, as its last error."""
    message = reason[:2000].encode("utf-8", "replace").decode()
    error = {"type": "TaskCancelled", "message": message, "permanent": True}
    return error | {"failures": failures(values)}


def cancelled_because(values: Values) -> str:
    """The reason that was given, in a sentence."""
    reason = decode(values[ERROR].json)["message"] if ERROR in values else ""
    return reason or "no reason was given"


def call_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    fingerprint: str | None,
    limits: Limits,
) -> TaskCall:
    """What is kept of the call. Arguments that are not JSON are not compared, nor scheduled.

    Nor are those scheduled that are too large to be kept.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        same = canonical([list(args), dict(kwargs)], "the arguments")
    except InvalidInput:
        return TaskCall(name, fingerprint, bare(name, fingerprint))
    digest = blake2b(same.encode(), digest_size=8).hexdigest()
    fingerprint = fingerprint or digest
    record = {"name": name, "fingerprint": fingerprint, "args": list(args), "kwargs": dict(kwargs)}
    try:
        kept = encode_checked(record, "the call")  # its arguments have been checked
        check_commit(len(kept), limits, "the call")
    except TooLarge:
        return TaskCall(name, fingerprint, bare(name, fingerprint))
    return TaskCall(name, fingerprint, kept.decode(), len(args) + len(kwargs))


def task_info(found: Found, cursor: str = "") -> TaskInfo:
    """A task as listed."""
    head, documents = found.head, found.documents
    error = decode(documents[ERROR].json) if ERROR in documents else None
    running = head.status == RUNNING
    lease = head.lease if running else None
    return TaskInfo(
        found.entity.id,
        head.owner or None,
        head.status,
        decode(documents[CALL].json)["name"] if CALL in documents else "",
        error["failures"] if error else 0,
        f"{error['type']}: {error['message']}" if error else None,
        moment(head.updated),
        None if head.due is None else moment(head.due),
        failures(documents) + deaths(documents) + running,
        lease.holder or None if lease else None,
        moment(lease.granted if lease else head.updated),
        cursor,
    )
