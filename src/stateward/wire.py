"""The protocol between a service and its engine: operations and outcomes, unchanged."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from stateward import errors
from stateward.engine import Description
from stateward.errors import AccessRefused, InvalidInput, StatewardError, StoreUnavailable, TooLarge
from stateward.ops import Entity, Op, Outcome

T = TypeVar("T")
WIRE = 1  # grows when an older service would misunderstand a newer engine
MSGPACK, JSON = "application/msgpack", "application/json"
EVENTS, LINES = "text/event-stream", "application/x-ndjson"
PROBLEM = "application/problem+json"
EXECUTE, WAIT, STORE = "/v1/execute", "/v1/wait", "/v1/store"
MOST_OPS = 1000  # in one batch
MUCH_JSON = 1 << 20  # bytes: of more, the operations are counted before they are decoded

# Errors that a service reports by name; all others are faults of its own.
REPORTED = {
    name: getattr(errors, name)
    for name in (
        *("InvalidInput", "TooLarge", "NotPermitted", "SchemaError"),
        *(
            "StoreUnavailable",
            "StoreTooSlow",
            "EntityBusy",
            "DiskProblem",
            "StoreFull",
            "NotReplicated",
            "TooFewReplicas",
        ),
    )
}


class ExecuteBody(Struct, frozen=True, array_like=True):
    """A batch, and the seconds for which its caller still waits."""

    ops: Annotated[tuple[Op, ...], Meta(max_length=MOST_OPS)]
    within: float | None = None


class _PartsCounted(Struct, frozen=True, array_like=True):
    """A batch or a wait whose parts are counted, and not decoded."""

    parts: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=MOST_OPS)]


class WaitBody(Struct, frozen=True, array_like=True):
    """Logs, each with the version the caller has, and the seconds to wait for a newer one."""

    cursors: Annotated[tuple[tuple[Entity, int], ...], Meta(max_length=MOST_OPS)]
    timeout: float


class StoreFacts(Struct, frozen=True):
    """The description of the store behind a service."""

    wire: int
    description: Description


class Problem(Struct, frozen=True, omit_defaults=True):
    """The reason why a request failed: a problem document of RFC 9457."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    error: str = ""  # the class of Stateward's error
    applied: Literal["no", "unknown"] | None = None
    is_busy: bool = False  # the store serves other calls: see `StoreUnavailable`


class Body(NamedTuple):
    """Encoded bytes and their format."""

    data: bytes
    kind: str


class Format(Generic[T]):
    """Decoders of one type: of MessagePack, and of JSON for people and for huge numbers."""

    def __init__(self, of: Any, *, counted: bool = False) -> None:
        self.counted = counted
        self._msgpack = msgspec.msgpack.Decoder(of).decode
        self._json = msgspec.json.Decoder(of).decode

    def decode(self, data: bytes, kind: str) -> T:
        """Decode a body; raises `msgspec.DecodeError`."""
        if kind == JSON and self.counted and len(data) > MUCH_JSON:
            _count(data)  # MessagePack says how many there are before the first
        decoded: T = (self._json if kind == JSON else self._msgpack)(data)
        return decoded


def encode(value: Any, kind: str = MSGPACK) -> Body:
    """Encode in a format; falls back to JSON if a number is too large for MessagePack."""
    if kind != JSON:
        try:
            return Body(_msgpack(value), MSGPACK)
        except OverflowError:
            pass
    return Body(_json(value), JSON)


_msgpack = msgspec.msgpack.Encoder().encode
_count = msgspec.json.Decoder(_PartsCounted).decode
_json = msgspec.json.Encoder().encode
EXECUTE_BODY: Format[ExecuteBody] = Format(ExecuteBody, counted=True)
WAIT_BODY: Format[WaitBody] = Format(WaitBody, counted=True)
OUTCOMES: Format[list[Outcome]] = Format(list[Outcome])
FACTS: Format[StoreFacts] = Format(StoreFacts)
_decode_problem = msgspec.json.Decoder(Problem).decode


TOO_LARGE = 413
MOVED = (301, 308)  # to another URL, for every further request
PASSING = (408, 425, 429)  # refusals of this moment: the same request may be accepted later


def failure_of(status: int, body: bytes, service: str) -> StatewardError:
    """Return the error of a problem document, or of any other answer that a proxy has sent.

    A refusal that repeating cannot change is the caller's error, not an outage.
    """
    try:
        problem = _decode_problem(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = Problem()
    message = f"{service}: {problem.detail or problem.title or f'answered with status {status}'}"
    if status == 401:
        return AccessRefused(message, applied="no")
    kind: type[StatewardError] = REPORTED.get(problem.error, StoreUnavailable)
    if problem.error not in REPORTED and status == TOO_LARGE:
        return TooLarge(
            f"{message} (status {status}): the request is too large for the service or a proxy "
            "before it; send less in one call, or raise the proxy's limit (nginx: "
            "client_max_body_size)"
        )
    if problem.error not in REPORTED and _is_lasting(status):
        return InvalidInput(
            f"{message} (status {status}): the service, or a proxy or firewall before it, refuses "
            "this request, so it is not repeated; check the URL and the rules of what is in between"
        )
    if issubclass(kind, StoreUnavailable):
        surely_not = problem.applied == "no" or status < 500
        failure = kind(message, applied="no" if surely_not else "unknown")
        failure.is_busy = problem.is_busy or kind.is_busy
        return failure
    return kind(message)


def _is_lasting(status: int) -> bool:
    return status in MOVED or (400 <= status < 500 and status not in PASSING)
