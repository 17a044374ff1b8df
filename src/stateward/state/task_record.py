"""The record of a task: its call, its claims and its end. No I/O."""

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
from stateward.state.work import error_text

PENDING, RUNNING, COMPLETED, FAILED = "pending", "running", "completed", "failed"
CANCELLED = "cancelled"
UNFINISHED = StatusIn((PENDING, RUNNING))
CALL, RESULT, ERROR, DEATHS = "call", "result", "error", "deaths"
READING = (CALL, RESULT, ERROR, DEATHS)
DIED = Put(DEATHS, "{}")  # its version is the number of deaths
DEATHS_FORGIVEN = 3  # processes that may die running a task, besides its attempts

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
    """The recorded call: the function's name, and a fingerprint that equal calls share.

    Arguments are stored until the task has ended, if they are JSON, so that a worker can run it.
    """

    name: str
    fingerprint: str | None
    json: str
    arguments: int | None = None  # how many are stored; None: they cannot be

    @property
    def forgotten(self) -> tuple[Put, ...]:
        """The write that removes the arguments once the task will not run again."""
        return (Put(CALL, bare(self.name, self.fingerprint)),) if self.arguments else ()


def bare(name: str, fingerprint: str | None) -> str:
    """Return a call without its arguments."""
    return encode({"name": name, "fingerprint": fingerprint}, "the call")


class Claim(Struct, frozen=True):
    """The right to run a task now."""

    lease: Lease
    asked: float
    failures: int
    attempts: int | None  # of a scheduled task; None: its caller delivers it again
    deaths: int = 0  # processes that died while running it


class Finished(Struct, frozen=True):
    """The recorded result."""

    value: Any


def claimable(head: Head, values: Values) -> tuple[Check, ...]:
    """Return the checks of a claim: the task must still be as it was when it was judged.

    A failed task must still have the same failure: another process may have ended it meanwhile.
    """
    if not head.exists:
        return (Absent(),)
    if head.status == FAILED and ERROR in values:
        error = values[ERROR]
        return StatusIn((FAILED,)), DocumentAt(ERROR, error.version, error.stamp)
    return (UNFINISHED,)


def failures(values: Values) -> int:
    """Return how often the task has failed so far."""
    return int(decode(values[ERROR].json)["failures"]) if ERROR in values else 0


def deaths(values: Values) -> int:
    """Return how many processes have died while running the task."""
    return values[DEATHS].version if DEATHS in values else 0


def scheduled_attempts(values: Values) -> int | None:
    """Return how often a scheduled task may fail; None for one that its caller delivers."""
    attempts: int | None = decode(values[CALL].json).get("attempts") if CALL in values else None
    return attempts


def is_runnable(values: Values) -> bool:
    """Whether the arguments are stored, so that a worker can run the task."""
    return CALL in values and "args" in decode(values[CALL].json)


def cancellation(values: Values, reason: str) -> dict[str, Any]:
    """Return the error to record for a cancelled task."""
    message = reason[:2000].encode("utf-8", "replace").decode()
    error = {"type": "TaskCancelled", "message": message, "permanent": True}
    return error | {"failures": failures(values)}


def cancelled_because(values: Values) -> str:
    """Return the reason of a cancellation for an error message."""
    reason = decode(values[ERROR].json)["message"] if ERROR in values else ""
    return reason or "no reason was given"


def call_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    fingerprint: str | None,
    limits: Limits,
) -> TaskCall:
    """Return the record of a call.

    Arguments that are not JSON are neither compared nor stored; too large ones are not stored.
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
        text = encode_checked(record, "the call")  # `canonical` has checked the arguments
        check_commit(len(text), limits, "the call")
    except TooLarge:
        return TaskCall(name, fingerprint, bare(name, fingerprint))
    return TaskCall(name, fingerprint, text.decode(), len(args) + len(kwargs))


def task_info(found: Found, cursor: str = "") -> TaskInfo:
    """Return a task as listed."""
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
        error_text(error) if error else None,
        moment(head.updated),
        None if head.due is None else moment(head.due),
        failures(documents) + deaths(documents) + running,
        lease.holder or None if lease else None,
        moment(lease.granted if lease else head.updated),
        cursor,
    )
