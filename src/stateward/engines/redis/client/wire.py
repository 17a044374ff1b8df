"""The protocol (RESP2), in both directions: hiredis does it."""

from __future__ import annotations

from collections.abc import Sequence

import hiredis

Word = str | bytes | int
Command = tuple[Word, ...]

MORE = object()  # result of the parser for an incomplete reply


def parser() -> hiredis.Reader:
    """Return a parser for the replies of one connection."""
    return hiredis.Reader(notEnoughData=MORE)


def pack(commands: Sequence[Command]) -> bytes:
    """The request for several commands, to be sent at once."""
    return b"".join([pack_one(command) for command in commands])


def pack_one(command: Command) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed
