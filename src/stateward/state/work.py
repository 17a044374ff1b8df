"""Records that tasks and workflows share: results, errors, signals and idempotency keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

from stateward.codec import Limits, check_id, encode, encode_value
from stateward.errors import (
    InvalidInput,
    LeaseLost,
    Permanent,
    StoreClosed,
    StoreMisused,
    StoreUnavailable,
)
from stateward.ops import Append, SetHead, Write

# Exceptions that end a process or a generator, whatever code they meet: they are no failure of the
# work, and are never recorded.
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
OF_THE_STORE = (StoreUnavailable, LeaseLost, StoreClosed)

_parts: ContextVar[Sequence[str] | str] = ContextVar("stateward_idempotency_key", default=())


def idempotency_key() -> str:
    """Return the key of the task, step or effect that is running here.

    It is the same at every try of this piece of work, on every replica: pass it to the payment API,
    so that an effect that happened just before a crash does not happen again.
    """
    parts = _parts.get()
    if not parts:
        raise StoreMisused(
            "idempotency_key() has a meaning only inside a task, a workflow step or an effect"
        )
    return parts if isinstance(parts, str) else key_of(parts)


def key_of(parts: Sequence[str]) -> str:
    """Return the idempotency key of the piece of work with these parts."""
    text = encode(list(parts), "the idempotency key")
    return blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def working_on(parts: Sequence[str] | str) -> Iterator[None]:
    """Set the piece of work, or its key, that `idempotency_key` is for in this block."""
    token = _parts.set(parts)
    try:
        yield
    finally:
        _parts.reset(token)


def result_json(value: Any, what: str, limits: Limits) -> str:
    """Encode a result; raises `Permanent` if it is too large or not JSON, as no retry helps."""
    try:
        return encode_value({"value": value}, f"the result of {what}", limits)
    except InvalidInput as error:
        raise Permanent(
            f"{error}; return plain JSON, so that another replica can use it"
        ) from error


def signal_writes(name: str, value: Any, key: str | None, limits: Limits) -> tuple[Write, ...]:
    """Return the writes that send a workflow a signal and make it due."""
    body = encode_value({"signal": name, "value": value}, "the signal", limits)
    # The length tells the name "a:b" with the key "c" from "a" with "b:c".
    if key is not None:
        key = f"signal:{len(name)}:{name}:{check_id(key, 'the key of a signal')}"
    return Append((body,), key), SetHead(due_in=0)


def holds(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether an error is of these kinds, or is a group that contains one."""
    if isinstance(error, BaseExceptionGroup):
        return any(holds(each, kinds) for each in error.exceptions)
    return isinstance(error, kinds)


def error_record(error: BaseException) -> dict[str, Any]:
    """Return an error as it is recorded: type and message, no traceback and no arguments."""
    return {
        "type": type(error).__name__,
        "message": _text(error)[:2000].encode("utf-8", "replace").decode(),
        "permanent": isinstance(error, Permanent),
    }


def _text(error: BaseException) -> str:
    """Return an error's text, or its arguments if its class cannot make a text of itself."""
    try:
        return str(error)
    except Exception:
        return ", ".join(map(repr, error.args)) if len(error.args) != 1 else f"{error.args[0]}"


def error_text(error: Mapping[str, Any]) -> str:
    """Return a recorded error as text."""
    return f"{error['type']}: {error['message']}"
