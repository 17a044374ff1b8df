"""Types of arguments. Each has its bound, and says in a sentence what it is for.

A type is `Annotated` with a bound that has `check(value, field)`, as those of `bounds.py` have, and
with a sentence for people and models. `described` makes a type with another sentence of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from stateward.bounds import CURSOR_BYTES, JSON_BYTES, LARGEST_PAGE, NAME_BYTES, Text
from stateward.codec import ID_BYTES
from stateward.errors import InvalidInput

MOST_ITEMS = 10_000


class Many(NamedTuple):
    """At most so many items, each of any kind."""

    most: int

    def check(self, value: Sized, field: str) -> None:
        if len(value) > self.most:
            raise InvalidInput(f"{field} holds {len(value):,}; it may hold {self.most:,}")


class InHeader(NamedTuple):
    """The header that an argument comes in over HTTP."""

    name: str


ID = Text(1, ID_BYTES)
NAME = Text(1, NAME_BYTES)
WORDS = Text(0, JSON_BYTES)

Id = Annotated[str, ID]
Name = Annotated[str, NAME]
Words = Annotated[str, WORDS]
User = Annotated[str | None, Text(0, ID_BYTES), "Only what belongs to this user id."]
Limit = Annotated[int, Meta(ge=1, le=LARGEST_PAGE), "How many at most."]
After = Annotated[
    str | None, Text(0, CURSOR_BYTES), "The `next` of the page before, for what comes after it."
]
Key = Annotated[
    str | None,
    Text(0, NAME_BYTES),
    InHeader("Idempotency-Key"),
    "Idempotency key: a duplicate delivery counts once.",
]
Items = Annotated[list[Any], Many(MOST_ITEMS)]
Fields = Annotated[dict[str, Any], Many(MOST_ITEMS)]


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of an action. With `kw_only=True` a required one may follow one with a default."""


class Nothing(Arguments, frozen=True):
    """No arguments."""


def notes_of(type: Any) -> tuple[Any, ...]:
    """Return what a type is annotated with, inside first; for `Name | None` that of `Name`."""
    origin, parts = get_origin(type), get_args(type)
    if origin is Annotated:
        return (*notes_of(parts[0]), *parts[1:])
    if origin in (Union, UnionType):
        return tuple(note for part in parts for note in notes_of(part))
    return ()


def about(field: FieldInfo) -> str:
    """Return the sentence about an argument; "" if it needs none."""
    return next((note for note in reversed(notes_of(field.type)) if isinstance(note, str)), "")


def header_of(field: FieldInfo) -> str | None:
    """Return the header that an argument comes in; None: in none."""
    return next((note.name for note in notes_of(field.type) if isinstance(note, InHeader)), None)


def unbounded(arguments: type[Struct]) -> list[str]:
    """Return the names of arguments whose size nothing limits. Any JSON has the request's limit."""
    return [
        field.name
        for field in msgspec.structs.fields(arguments)
        if _sized(field.type) and not any(map(_bounds, notes_of(field.type)))
    ]


def _sized(type: Any) -> bool:
    origin = get_origin(type)
    if origin is Annotated:
        return _sized(get_args(type)[0])
    if origin in (Union, UnionType):
        return any(map(_sized, get_args(type)))
    return (origin or type) in (str, int, float, list, dict, tuple)


def _bounds(note: Any) -> bool:
    return isinstance(note, Meta) or hasattr(note, "check")


def check(arguments: Struct) -> None:
    """Raise `InvalidInput` for an argument out of its bounds."""
    for name, field, bounds in _checks(type(arguments)):
        value = getattr(arguments, name)
        if value is not None:
            for bound in bounds:
                bound(value, field)


Check = Callable[[Any, str], None]


@cache
def _checks(arguments: type[Struct]) -> list[tuple[str, str, list[Check]]]:
    """Return the name of each argument that has bounds, its name for people, and their checks."""
    checks = []
    for field in msgspec.structs.fields(arguments):
        notes = filter(_bounds, notes_of(field.type))
        bounds: list[Check] = [
            _within(note) if isinstance(note, Meta) else note.check for note in notes
        ]
        if bounds:
            checks.append((field.name, field.encode_name, bounds))
    return checks


def _within(meta: Meta) -> Check:
    least, most = meta.ge, meta.le

    def check_number(value: Any, field: str) -> None:
        if (least is not None and value < least) or (most is not None and value > most):
            raise InvalidInput(f"{field} must be from {least} to {most}, not {value}")

    return check_number
