"""Turns that others were stored instead of, as a document of their thread. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from stateward.codec import decode
from stateward.ops import Entry, Value
from stateward.records import Change, Cursor, moment

REPLACED = "replaced "  # prefix of the documents; the rest is the version of the thread before


class Replaced(Struct, frozen=True):
    """Messages that a turn was stored instead of: `turn.store(…, instead_of=…)`.

    `by` is the key of that turn; `messages` have the numbers and keys that they had in the thread.
    """

    by: str
    at: datetime
    messages: tuple[Change, ...]


class ReplacedMessage(Struct, frozen=True, array_like=True):
    """A message as it was in the log."""

    number: int
    at: float
    stamp: str
    message: msgspec.Raw
    key: str | None = None


class ReplacedTurns(Struct, frozen=True):
    """The messages that one turn was stored instead of."""

    by: str  # the key of that turn
    at: float
    messages: list[ReplacedMessage]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ReplacedTurns).decode


def stored_replaced(by: str, at: float, entries: Sequence[Entry]) -> str:
    """Return the document with messages that a turn with the key `by` is stored instead of."""
    messages = [
        ReplacedMessage(each.seq, each.at, each.stamp, msgspec.Raw(each.body.encode()), each.key)
        for each in entries
    ]
    return _encode(ReplacedTurns(by, at, messages)).decode()


def replaced_of(value: Value) -> Replaced:
    """Return the record of such a document, as callers get it."""
    turns = _decode(value.json)
    changes = tuple(
        Change(
            decode(bytes(each.message)),
            each.number,
            Cursor(each.number, each.stamp),
            moment(each.at),
            each.key,
        )
        for each in turns.messages
    )
    return Replaced(turns.by, moment(turns.at), changes)
