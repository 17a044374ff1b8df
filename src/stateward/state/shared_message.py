"""Messages of a fork traced to the origin they were copied from, which has their receipts."""

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
    """Return the original of a fork's message, given the fork's document about its origin.

    None: the message is the fork's own, or the document has no numbers.
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
    """Return runs of consecutive numbers, each as its first and last."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans
