"""Turns that others were stored instead of, as a document of their thread. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import decode
from stateward.ops import Delete, Entry, Put, Value, Write
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
    return Replaced(turns.by, moment(turns.at), tuple(map(_change_of, turns.messages)))


def numbers_of(value: Value) -> list[int]:
    """Return the numbers of the messages in such a document."""
    return [each.number for each in _decode(value.json).messages]


def rewritten(
    name: str, value: Value, bodies: Mapping[int, str | None]
) -> tuple[tuple[Write, ...], list[Change]]:
    """Return the writes that rewrite messages of a document, or remove them (None).

    Also the messages as they were before.
    """
    turns = _decode(value.json)
    gone = [_change_of(each) for each in turns.messages if each.number in bodies]
    if not gone:
        return (), gone
    messages = [_with(each, bodies.get(each.number, "")) for each in turns.messages]
    left = [each for each in messages if each is not None]
    if not left:
        return (Delete(name),), gone
    return (Put(name, _encode(replace(turns, messages=left)).decode()),), gone


def _with(message: ReplacedMessage, body: str | None) -> ReplacedMessage | None:
    if body is None:
        return None
    return replace(message, message=msgspec.Raw(body.encode())) if body else message


def _change_of(message: ReplacedMessage) -> Change:
    return Change(
        decode(bytes(message.message)),
        message.number,
        Cursor(message.number, message.stamp),
        moment(message.at),
        message.key,
    )
