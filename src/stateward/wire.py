"""What a service and its engine say to each other: operations and outcomes, as they are."""

from __future__ import annotations

from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from stateward import errors
from stateward.engine import Description
from stateward.errors import AccessRefused, StatewardError, StoreUnavailable
from stateward.ops import Entity, Op, Outcome

T = TypeVar("T")
WIRE = 1  # grows when an older service would misunderstand a newer engine
MSGPACK, JSON = "application/msgpack", "application/json"
PROBLEM = "application/problem+json"
EXECUTE, WAIT, STORE = "/v1/execute", "/v1/wait", "/v1/store"

# Errors that a service tells by name; all others are its own fault.
TOLD = {
    name: getattr(errors, name)
    for name in (
        *("InvalidInput", "TooLarge", "NotPermitted", "SchemaError"),
        *("StoreUnavailable", "StoreTooSlow", "EntityBusy", "DiskProblem", "StoreFull"),
    )
}


class ExecuteBody(Struct, frozen=True, array_like=True):
    """A batch, and for how many seconds more someone waits for its outcomes."""

    ops: tuple[Op, ...]
    within: float | None = None


class WaitBody(Struct, frozen=True, array_like=True):
    """Logs, each with the version after which it is news, and for how many seconds to wait."""

    cursors: tuple[tuple[Entity, int], ...]
    timeout: float


class StoreFacts(Struct, frozen=True):
    """What a service says of the store behind it."""

    wire: int
    description: Description


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request failed: a problem document of RFC 9457."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    error: str = ""  # the class of Stateward's error
    applied: Literal["no", "unknown"] | None = None


class Body(NamedTuple):
    """Bytes, and which format they are in."""

    data: bytes
    kind: str


class Format(Generic[T]):
    """One kind of thing in either format: MessagePack, or JSON for people and for huge numbers."""

    def __init__(self, of: Any) -> None:
        self._msgpack = msgspec.msgpack.Decoder(of).decode
        self._json = msgspec.json.Decoder(of).decode

    def decode(self, data: bytes, kind: str) -> T:
        """Raises `msgspec.DecodeError`."""
        decoded: T = (self._json if kind == JSON else self._msgpack)(data)
        return decoded


def encode(value: Any, kind: str = MSGPACK) -> Body:
    """In that format; in JSON, if a number is too large for the other."""
    if kind != JSON:
        try:
            return Body(_msgpack(value), MSGPACK)
        except OverflowError:
            pass
    return Body(_json(value), JSON)


_msgpack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
EXECUTE_BODY: Format[ExecuteBody] = Format(ExecuteBody)
WAIT_BODY: Format[WaitBody] = Format(WaitBody)
OUTCOMES: Format[list[Outcome]] = Format(list[Outcome])
FACTS: Format[StoreFacts] = Format(StoreFacts)
_decode_problem = msgspec.json.Decoder(Problem).decode


def failure_of(status: int, body: bytes, service: str) -> StatewardError:
    """The error that a problem document tells of, or that something on the way has answered."""
    try:
        problem = _decode_problem(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = Problem()
    said = f"{service}: {problem.detail or problem.title or f'answered with status {status}'}"
    if status == 401:
        return AccessRefused(said, applied="no")
    kind = TOLD.get(problem.error)
    if kind is None:
        kind = StoreUnavailable
    if issubclass(kind, StoreUnavailable):
        surely_not = problem.applied == "no" or status < 500
        return kind(said, applied="no" if surely_not else "unknown")
    refusal: StatewardError = kind(said)
    return refusal
