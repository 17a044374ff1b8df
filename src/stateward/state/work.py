"""A piece of work, as it is recorded: its result, its error, and its key for the outside world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

# What ends a process or a generator, whatever code it meets: asyncio draws the same line.
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
OF_THE_STORE = (StoreUnavailable, LeaseLost, StoreClosed)

_parts: ContextVar[Sequence[str]] = ContextVar("stateward_idempotency_key", default=())


def idempotency_key() -> str:
    """The key of the task, step or effect that is running here.

    It is the same each time this very piece of work is tried, by whichever replica: pass it to the
    payment API, so that an effect that happened just before a crash does not happen again.
    """
    parts = _parts.get()
    if not parts:
        raise StoreMisused(
            "idempotency_key() has a meaning only inside a task, a workflow step or an effect"
        )
    return key_of(parts)


def key_of(parts: Sequence[str]) -> str:
    """The key of the piece of work with these parts, for the outside world."""
    text = encode(list(parts), "the idempotency key")
    return blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def working_on(parts: Sequence[str]) -> Iterator[None]:
    """Code inside belongs to the piece of work with these parts. Most of it asks for no key."""
    token = _parts.set(parts)
    try:
        yield
    finally:
        _parts.reset(token)


def result_json(value: Any, what: str, limits: Limits) -> str:
    """The result as it is stored; one that is too large or not JSON is a mistake no retry mends."""
    try:
        return encode_value({"value": value}, f"the result of {what}", limits)
    except InvalidInput as error:
        raise Permanent(
            f"{error}; return plain JSON, so that another replica can use it"
        ) from error


def signal_writes(name: str, value: Any, key: str | None, limits: Limits) -> tuple[Write, ...]:
    """What tells a workflow something, and has it driven."""
    body = encode_value({"signal": name, "value": value}, "the signal", limits)
    # The length keeps the name "a:b" with the key "c" from being "a" with "b:c".
    if key is not None:
        key = f"signal:{len(name)}:{name}:{check_id(key, 'the key of a signal')}"
    return Append((body,), key), SetHead(due_in=0)


def holds(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether it is one of these, or a group of exceptions that one of these is in."""
    if isinstance(error, BaseExceptionGroup):
        return any(holds(each, kinds) for each in error.exceptions)
    return isinstance(error, kinds)


def error_record(error: BaseException) -> dict[str, Any]:
    """An error as it is recorded: type and message, no traceback and no arguments."""
    return {
        "type": type(error).__name__,
        "message": str(error)[:2000].encode("utf-8", "replace").decode(),
        "permanent": isinstance(error, Permanent),
    }
