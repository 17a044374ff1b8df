"""Encoding and decoding of JSON, and checks of arguments.

msgspec is fast because it is lenient: it writes NaN as null, an integer key as a string, a
date as a string. A store must return values unchanged, so they are checked first: only values that
JSON can represent are accepted (a tuple comes back as a list).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from stateward.errors import InvalidInput, SchemaError, TooLarge

T = TypeVar("T")
Json = dict[str, Any]


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


AnyMessage = Mapping[str, object] | Dataclass | msgspec.Struct

_encoder = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_NAMES, _FLAT = frozenset((str,)), frozenset((str, int, bool, type(None)))
_marks = msgspec.json.Decoder(tuple[float | int | None, str, str])

MAX_DEPTH = 200
ID_BYTES = 512
MOST = 1 << 53  # larger than any count; fits every engine's integers
LONGEST = 1000 * 366 * 86_400.0  # seconds
SHORTEST_TTL, LONGEST_TTL = 0.05, 86_400
LAST_MOMENT = 253_402_300_800.0  # the year 10000

Retention = timedelta | float | None
THIRTY_DAYS = timedelta(days=30)


class Limits(msgspec.Struct, frozen=True):
    """The largest sizes, in bytes of JSON text."""

    message: int = 1 << 20
    commit: int = 16 << 20

    def __post_init__(self) -> None:
        check_count(self.message, "Limits.message")
        check_count(self.commit, "Limits.commit")


def encode(value: Any, what: str) -> str:
    """Encode a value; raises `InvalidInput` with the place that is not JSON."""
    if not _is_flat(value):
        _check(value, what, 0)
    return encode_checked(value, what).decode()


def encode_checked(value: Any, what: str) -> bytes:
    """Encode a value that has been checked, to bytes."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{what} holds a lone surrogate ({error.object[error.start]!r}), which is not text; "
            "repair it first, e.g. text.encode('utf-8', 'replace').decode()"
        ) from error
    except ValueError as error:  # Python refuses to print integers of thousands of digits
        raise InvalidInput(f"{what} holds a number that is too long to be written") from error


def canonical(value: Any, what: str) -> str:
    """Encode a value with sorted names, so that equal values have equal texts."""
    _check(value, what, 0)
    try:
        return _sorting.encode(value).decode()
    except ValueError:
        return encode(value, what)  # raises `InvalidInput`


def decode(text: str | bytes) -> Any:
    """Decode one JSON text that Stateward stored."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(error) from error


def decode_lines(lines: str) -> list[Any]:
    """Decode several JSON texts joined by newlines."""
    try:
        return _decoder.decode_lines(lines)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(error) from error


def listing_mark(after: str) -> tuple[float, str, str]:
    """Decode a cursor of a listing into due time or minute, kind and id.

    Raises `InvalidInput` for other text: clients store cursors, and may pass anything.
    """
    try:
        rank, kind, id = _marks.decode(after)
    except msgspec.DecodeError as error:
        raise _no_mark(after) from error
    if rank is not None and not -MOST <= rank <= MOST:
        raise _no_mark(after)
    return rank or 0, kind, id


def _no_mark(after: str) -> InvalidInput:
    return InvalidInput(f"{shown(after)} is not a cursor of a listing: pass one unchanged")


def as_message(value: Any) -> dict[str, Any]:
    """Return a message as a dict; accepts a dict, a dataclass or a msgspec struct."""
    if type(value) is dict:
        return value
    if isinstance(value, msgspec.Struct) or hasattr(type(value), "__dataclass_fields__"):
        try:
            plain = msgspec.to_builtins(value)
        except TypeError as error:
            raise InvalidInput(f"the message holds what JSON cannot: {error}") from error
        if type(plain) is dict:
            return plain
    raise InvalidInput(
        f"a message is a JSON object (a dict), a dataclass or a msgspec struct, not "
        f"{type(value).__name__}; {_instead(value)}"
    )


def _instead(value: object) -> str:
    """Return the advice for a value that is not a message."""
    if isinstance(value, list | tuple):
        return "pass the messages one by one: append(*messages)"
    if hasattr(value, "model_dump"):
        return "pass what it holds: append(message.model_dump(exclude_none=True))"
    if isinstance(value, Mapping):
        return "pass append(dict(message))"
    return "wrap it, e.g. {'role': 'user', 'content': ...}"


def encode_messages(messages: Sequence[Any], limits: Limits) -> tuple[str, ...]:
    """Encode the messages of one append: each a JSON object, all within the limits."""
    if not messages:
        raise InvalidInput("append needs at least one message, e.g. append({'role': 'user', ...})")
    bodies = []
    total = 0
    for message in messages:
        if type(message) is not dict:
            message = as_message(message)
        if not _is_flat(message):
            _check(message, "the message", 0)
        data = encode_checked(message, "the message")
        size = len(data)
        if size > limits.message:
            raise TooLarge(
                f"a message of {size:,} bytes is over the limit of {limits.message:,}; keep large "
                "content elsewhere and store a reference, or raise Limits.message"
            )
        total += size
        bodies.append(data.decode())
    if total > limits.commit:
        check_commit(total, limits)
    return tuple(bodies)


def encode_document(value: Any, limits: Limits) -> str:
    """Encode a document: any JSON object, within the limit of a commit."""
    if type(value) is not dict:
        raise InvalidInput(f"a document is a JSON object (a dict), not {type(value).__name__}")
    return encode_value(value, "the document", limits)


def encode_value(value: Any, what: str, limits: Limits) -> str:
    """Encode any other value that is stored whole, within the limit of a commit."""
    if not _is_flat(value):
        _check(value, what, 0)
    data = encode_checked(value, what)
    check_commit(len(data), limits, what)
    return data.decode()


# --- objects of a type: a dataclass, a TypedDict, a msgspec struct, a Pydantic model -------------


def to_type(value: Json, cls: type[T], what: str) -> T:
    """Convert a JSON object to an object of a type; raises `InvalidInput` if it does not fit."""
    validate = getattr(cls, "model_validate", None)  # Pydantic need not be installed
    try:
        if validate is not None:
            made: T = validate(value)
            return made
        return msgspec.convert(value, cls)
    except (msgspec.ValidationError, ValueError) as error:  # Pydantic raises a ValueError
        raise InvalidInput(
            f"{what} does not fit {_name(cls)}: {_in_one_line(error)}. Give the fields that it "
            "lacks a default, or bring it into shape first, reading it without a type"
        ) from error
    except TypeError as error:
        raise _no_type(cls, error) from error


def _name(cls: object) -> str:
    return getattr(cls, "__name__", None) or str(cls)


def _no_type(cls: object, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"{_name(cls)} cannot be read from JSON ({_in_one_line(error)}); pass a dataclass, a "
        "TypedDict, a msgspec.Struct or a Pydantic model"
    )


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


# --- what may be passed ---------------------------------------------------------------------------


def check_commit(size: int, limits: Limits, what: str = "what is to be committed") -> None:
    """Raise `TooLarge` if a commit is over the limit."""
    if size > limits.commit:
        raise TooLarge(
            f"{what} has {size:,} bytes, which is over the limit of {limits.commit:,}; split it, "
            "keep it elsewhere and store a reference, or raise Limits.commit"
        )


def check_id(value: Any, what: str) -> str:
    """Return an id that every engine can store; raises `InvalidInput` otherwise."""
    if type(value) is not str:
        raise InvalidInput(f"{what} is a string, not {type(value).__name__}: {value!r}")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{what} holds a lone surrogate and is not text: {value!r}"
            ) from error
    if not 0 < size <= ID_BYTES:
        raise InvalidInput(f"{what} has {size} bytes; it needs 1 to {ID_BYTES} bytes of UTF-8")
    return value


def check_key(key: str | None, repeat: str | None) -> None:
    """Raise `InvalidInput` for an invalid key or `repeat`."""
    if key is not None:
        check_id(key, "a key")
    if repeat not in (None, "first"):
        raise InvalidInput(f'repeat is "first" or left out, not {repeat!r}')
    if repeat is not None and key is None:
        raise InvalidInput(
            'repeat="first" needs a key: append(..., key=request_id, repeat="first")'
        )


def check_count(value: Any, name: str) -> int:
    """Return a count of at least 1, reduced to `MOST`."""
    if type(value) is not int or value < 1:
        raise InvalidInput(f"{name} is a whole number of at least 1, not {shown(value)}")
    return min(value, MOST)


def check_seconds(value: Any, name: str) -> float:
    """Return a duration: not NaN, not infinite, and not meant in another unit."""
    if type(value) not in (int, float) or not abs(value) < LONGEST:
        raise InvalidInput(
            f"{name} is a number of seconds, within {LONGEST:.0f} (a thousand years), "
            f"not {shown(value)}"
        )
    return float(value)


def check_span(value: Any, name: str) -> float:
    """Return a duration of at least 0."""
    if check_seconds(value, name) < 0:
        raise InvalidInput(f"{name} is a number of seconds of at least 0, not {value!r}")
    return float(value)


def seconds(retain: Retention) -> float | None:
    """Return a retention in seconds; None: for ever."""
    if retain is None:
        return None
    value = retain.total_seconds() if isinstance(retain, timedelta) else retain
    if type(value) not in (int, float) or not 0 < value < 1e11:
        raise InvalidInput(
            f"retain is a timedelta or seconds above 0, or None for ever, not {retain!r}"
        )
    return float(value)


def check_ttl(ttl: Any) -> float:
    """Return the seconds after which an unrenewed lease expires."""
    if type(ttl) not in (int, float) or not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        raise InvalidInput(
            f"ttl is a number of seconds from {SHORTEST_TTL} to {LONGEST_TTL}, not {shown(ttl)}"
        )
    return float(ttl)


def check_time(value: Any, name: str) -> float:
    """Return a time in seconds since the epoch that a datetime can represent."""
    if isinstance(value, datetime):
        try:
            value = value.timestamp()
        except (ValueError, OverflowError):  # a day at either end of the calendar
            value = None
    if type(value) not in (int, float) or not 0 <= value < LAST_MOMENT:
        raise InvalidInput(
            f"{name} is a datetime, or a time in seconds since 1970 (not milliseconds) before the "
            f"year 10000, not {shown(value)}"
        )
    return float(value)


def shown(value: Any) -> str:
    """Return the text of any value for an error message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= 200 else f"{text[:200]}…"


def _damaged(error: Exception) -> SchemaError:
    return SchemaError(
        f"the store holds text that is not JSON ({error}): it is damaged or was changed by "
        "something else; restore it from a backup"
    )


def _is_flat(value: Any) -> bool:
    """Whether a value is a dict of strings and integers, like most messages; checked in C."""
    if type(value) is not dict:
        return False
    try:
        values, names = map(type, value.values()), map(type, value)
        return _FLAT.issuperset(values) and _NAMES.issuperset(names)
    except TypeError:  # of a class that cannot be hashed
        return False


def _check(value: Any, what: str, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidInput(
                    f"{what} has the key {key!r}; JSON keys are strings, and another type would "
                    "not come back as it was"
                )
            inner = type(item)
            if inner is not str and inner is not int:
                _check(item, what, depth + 1)
    elif kind is list or kind is tuple:
        for item in value:
            _check(item, what, depth + 1)
    elif kind is float:
        if not isfinite(value):
            raise InvalidInput(f"{what} holds {value!r}, which JSON has no form for")
    else:
        raise InvalidInput(
            f"{what} holds a {kind.__module__}.{kind.__qualname__}, which is not JSON; "
            "convert it first (to a dict, list, str, int, float, bool or None)"
        )
