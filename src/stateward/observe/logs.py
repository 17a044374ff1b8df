"""Logs from which a race can be read: versions in every write's record, and whose request it was.

Everything is logged with the standard `logging`, below `stateward`. The message is a constant name
of what happened, the rest are fields of the record (`extra`), for a formatter that shows them, such
as `JsonFormatter`. Fields are ids, versions, times and error types; never what a message or a
document says, and never a URL. `reason`, the words of an error, is for people: JSON leaves it out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stateward.errors import StoreUnavailable
from stateward.observe.correlation import correlation_id
from stateward.observe.log_text import fields_of
from stateward.observe.stderr_log import DEFAULT_LOG
from stateward.ops import (
    Applied,
    Commit,
    Conflict,
    DocumentAt,
    Duplicate,
    Entity,
    Fence,
    Fetch,
    Head,
    KeyReused,
    LogAt,
    Op,
    Outcome,
    StatusIn,
)

ROOT_LOG = logging.getLogger("stateward")
WRITES_LOG = logging.getLogger("stateward.writes")
READS_LOG = logging.getLogger("stateward.reads")

LINES = 20  # of one kind logged in `SECONDS`; further ones are counted
SECONDS = 60.0

# What a refusal deserves: a fence that was refused means that two believed to hold one lease.
_LEVELS = {"fenced": logging.WARNING, "key_reused": logging.WARNING, "conflict": logging.INFO}


def log_write(commit: Commit, operation: str, outcome: Any, seconds: float) -> None:
    """Log at DEBUG that a commit was stored, and the versions it made."""
    WRITES_LOG.debug(
        "write_stored", extra=_fields(commit, operation, seconds) | _made(outcome) | _asked(commit)
    )


def log_refusal(
    commit: Commit, operation: str, name: str, outcome: Outcome, seconds: float
) -> None:
    """Log at INFO or above that a commit was refused, with the expected and the found state."""
    level = _LEVELS.get(name, logging.DEBUG)
    if WRITES_LOG.isEnabledFor(level):
        fields = _fields(commit, operation, seconds) | _asked(commit) | _found(commit, outcome)
        message = "write_repeated" if name == "duplicate" else "write_refused"
        WRITES_LOG.log(level, message, extra=fields | {"outcome": name})


def log_failure(
    ops: Sequence[Op],
    operations: Sequence[str],
    error: BaseException,
    name: str,
    seconds: float,
    unlogged: int,
) -> None:
    """Log at WARNING, once a call, that the store failed, and if a write may have been stored."""
    op = ops[0]
    write = type(op) is Commit
    logger = WRITES_LOG if write else READS_LOG
    if not logger.isEnabledFor(logging.WARNING):
        return
    fields: dict[str, Any] = {"operation": operations[0]}
    if len(ops) > 1:
        fields["operations"] = list(operations)
    fields |= {"error": name, "seconds": round(seconds, 6)}
    if isinstance(op, Commit | Fetch):
        fields |= _where(op.entity)
    if isinstance(op, Commit):
        fields |= {"op": op.op} | _asked(op)
    if isinstance(error, StoreUnavailable) and write:
        fields["applied"] = error.applied
    if unlogged:
        fields["unlogged"] = unlogged
    fields |= {"correlation_id": correlation_id(), "reason": f"{name}: {error}"}
    logger.warning("write_failed" if write else "read_failed", extra=fields)


class Sparing:
    """A limit to lines of one kind: in an outage every call of every user fails.

    The log must not become the next outage. Lines left out are counted, and the next line that is
    logged has their number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = float("-inf")
        self._logged = self._left_out = 0

    def unlogged(self, now: float) -> int | None:
        """Return how many lines were left out since the last one; None: leave this one out, too."""
        with self._lock:
            if now - self._since >= SECONDS:
                self._since, self._logged = now, 0
            if self._logged >= LINES:
                self._left_out += 1
                return None
            self._logged += 1
            return self._take()

    def rest(self, now: float) -> int:
        """Return how many lines were left out, once the time for a sum has come; otherwise 0."""
        with self._lock:
            return self._take() if now - self._since >= SECONDS else 0

    def _take(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out


def log_going_back(entity: Entity, head: Head, before: int) -> None:
    """Log at ERROR that the store shows an older state than before."""
    READS_LOG.error(
        "version_backwards",
        extra=_where(entity)
        | {
            "commits": head.commits,
            "commits_before": before,
            "version": head.version,
            "stamp": head.stamp,
            "correlation_id": correlation_id(),
        },
    )


def _where(entity: Entity) -> dict[str, Any]:
    return {"namespace": entity.namespace, "kind": entity.kind, "id": entity.id}


def _fields(commit: Commit, operation: str, seconds: float) -> dict[str, Any]:
    return _where(commit.entity) | {
        "operation": operation,
        "op": commit.op,
        "outcome": "stored",
        "seconds": round(seconds, 6),
        "correlation_id": correlation_id(),
    }


def _made(outcome: Applied) -> dict[str, Any]:
    fields: dict[str, Any] = {"version": outcome.version, "at": outcome.at}
    if outcome.documents:
        fields["documents"] = dict(outcome.documents)
    if outcome.lease is not None:
        fields["token"] = outcome.lease.token
    return fields


def _asked(commit: Commit) -> dict[str, Any]:
    """Return the versions and stamps that the writer had read and builds on."""
    fields: dict[str, Any] = {}
    for check in commit.checks:
        if isinstance(check, LogAt):
            fields |= {"expected_version": check.version, "expected_stamp": check.stamp}
        elif isinstance(check, DocumentAt):
            fields |= {
                "document": check.name,
                "expected_version": check.version,
                "expected_stamp": check.stamp,
            }
        elif isinstance(check, Fence):
            fields["token"] = check.token
        elif isinstance(check, StatusIn):
            fields["expected_status"] = list(check.statuses)
    return fields


def _found(commit: Commit, outcome: Outcome) -> dict[str, Any]:
    """Return the version and the stamp that are stored instead."""
    if isinstance(outcome, Conflict) and isinstance(outcome.failed, DocumentAt):
        value = outcome.values.get(outcome.failed.name)
        if value is None:
            return {"current_version": 0}
        return {"current_version": value.version, "current_stamp": value.stamp}
    fields: dict[str, Any] = {}
    head = getattr(outcome, "head", None)
    if head is not None:
        fields = {"current_version": head.version, "current_stamp": head.stamp}
        if head.status:
            fields["current_status"] = head.status
        if head.lease is not None:
            fields |= {"current_token": head.lease.token, "holder": head.lease.holder}
    if isinstance(outcome, KeyReused):
        fields["first_version"] = outcome.version
    if isinstance(outcome, Duplicate):
        fields |= {"first_version": outcome.first.version, "own": outcome.own}
    return fields


# --- where nothing is configured ----------------------------------------------------------

ROOT_LOG.addHandler(DEFAULT_LOG)


# --- as JSON ----------------------------------------------------------------------------


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object a line: time, level, logger, event, correlation, and fields.

    handler.setFormatter(stateward.observe.logs.JsonFormatter(replica="a"))

    Keyword arguments are added to every line.
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            "process": record.process,
            **self._fields,
            "correlation_id": correlation_id(),
        }
        line |= {name: of for name, of in fields_of(record).items() if name != "reason"}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        from json import dumps  # for those who use this; msgspec would not escape what is not ASCII

        return dumps(line, default=str, ensure_ascii=True)
