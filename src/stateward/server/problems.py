"""Errors for clients: problem documents of RFC 9457."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil

import msgspec

from stateward.actions.action import Missing, Overtaken
from stateward.errors import (
    ConversationDeletedError,
    EffectUnknown,
    EntityBusy,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotKept,
    NotPermitted,
    NotReplicated,
    NotYoursError,
    Reset,
    SchemaError,
    StateConflictError,
    StoreClosed,
    StoreTooSlow,
    StoreUnavailable,
    TooLarge,
    Truncated,
    WorkflowFinished,
    WrongReplica,
)
from stateward.wire import Problem

PAGE = "https://github.com/stateward/stateward/blob/main/docs/reference/errors.md#"
RETRY_SECONDS = 1

logger = logging.getLogger("stateward.service")

# The first that fits. "": what the error says, which is about the request. Other errors may name
# hosts and files: that is for the service's own log.
ANSWERS: tuple[tuple[type[Exception], int, str], ...] = (
    (NotPermitted, 403, ""),
    (TooLarge, 413, ""),
    (InvalidInput, 400, ""),
    (NotYoursError, 403, ""),
    (StateConflictError, 412, ""),
    (KeyReusedError, 422, ""),
    (LeaseHeld, 423, ""),
    (LeaseLost, 409, ""),
    (WorkflowFinished, 409, ""),
    (EffectUnknown, 409, ""),
    (ConversationDeletedError, 410, ""),
    (Reset, 410, ""),
    (Truncated, 410, ""),
    (NotKept, 410, ""),
    (WrongReplica, 421, ""),
    (ValueError, 400, ""),
    (EntityBusy, 503, "this is locked in the service's store; try again"),
    (NotReplicated, 503, ""),
    (StoreTooSlow, 503, "the service's store did not answer in time; try again"),
    (StoreUnavailable, 503, "the service's store does not answer, or fails; its log says why"),
    (StoreClosed, 503, "the service is stopping; try again"),
    (SchemaError, 503, "the service's store needs a migration; its log says which"),
)
TITLES = {
    400: "Invalid request",
    401: "Authentication required",
    403: "Not permitted",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long to arrive",
    409: "Not in this state",
    410: "No longer kept",
    412: "Version conflict",
    413: "Too large",
    415: "Unsupported format",
    421: "Another replica serves this",
    422: "Key reused for something else",
    423: "Locked by another process",
    428: "Version required",
    429: "Too many requests",
    500: "The service failed",
    503: "Store unavailable",
}


class Refusal(Exception):
    """A request that is refused before any store is asked."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers


def problem_of(error: Exception, *, for_user: bool = False) -> tuple[int, bytes, Mapping[str, str]]:
    """The status, the document and more headers. A user is not told what others have."""
    if isinstance(error, Missing):
        error = Refusal(404, str(error))
    if isinstance(error, Overtaken):
        error = Refusal(409, str(error))
    if for_user and (
        isinstance(error, NotYoursError | Missing)
        or (isinstance(error, Refusal) and error.status == 404)
    ):
        error = Refusal(404, "there is nothing of that name that is yours")
    if isinstance(error, Refusal):
        problem = Problem(title=TITLES[error.status], status=error.status, detail=str(error))
        return error.status, msgspec.json.encode(problem), error.headers
    unknown = (Exception, 500, "the service has failed; its log says how")
    kind, status, detail = next((row for row in ANSWERS if isinstance(error, row[0])), unknown)
    if status == 500:
        logger.error("request_failed", extra={"error": type(error).__name__}, exc_info=error)
    public = kind not in (Exception, ValueError)
    name = type(error).__name__ if public else ("InvalidInput" if kind is ValueError else "")
    applied = None
    if status >= 500:
        applied = error.applied if isinstance(error, StoreUnavailable) else "unknown"
    problem = Problem(
        type=f"{PAGE}{name.lower()}" if name else "about:blank",
        title=TITLES[status],
        status=status,
        detail=detail or str(error),
        error=name,
        applied=applied,
        is_busy=isinstance(error, StoreUnavailable) and error.is_busy,
    )
    headers = {"retry-after": str(RETRY_SECONDS)} if status == 503 else {}
    if isinstance(error, LeaseHeld):
        headers["retry-after"] = str(max(RETRY_SECONDS, ceil(error.remaining)))
    return status, msgspec.json.encode(problem), headers
