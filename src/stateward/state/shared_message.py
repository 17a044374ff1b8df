"""Which message of its origin a fork's message is a copy of: the origin has the receipts."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stateward.codec import decode
from stateward.ops import Value
from stateward.records import Cursor

FORKED_FROM = "forked_from"  # the document beside a fork that names its origin


class SharedMessage(Struct, frozen=True):
    """The message of an origin that a fork has a copy of, and where the copy ends."""

    thread: str
    number: int
    end: Cursor


def shared_message(value: Value | None, number: int) -> SharedMessage | None:
    """What a fork's message is a copy of, by what its note of its origin says.

    None: it is the fork's own, or the fork was made before such numbers were kept.
    """
    named = {} if value is None else decode(value.json)
    spans = named.get("numbers", ())
    for first, last in spans:
        if number <= last - first + 1:
            end = Cursor(spans[-1][1], named["stamp"])
            return SharedMessage(named["thread"], first + number - 1, end)
        number -= last - first + 1
    return None


def number_spans(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers that follow each other, as the first and the last of them."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans
