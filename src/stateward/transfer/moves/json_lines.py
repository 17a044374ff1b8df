"""JSON lines: `jsonl:messages.jsonl`, a message on each line, conversations in any order.

    {"thread": "s-1", "user": "u-42", "at": "2026-05-01T12:00:00Z", "message": {"role": "user", …}}

`user` and `at` (also: seconds since 1970) may be left out. Instead of `message` a line may have
`messages`, a list. All lines are checked before anything is moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

import apsw
import msgspec

from stateward.codec import check_id, check_time
from stateward.errors import InvalidInput
from stateward.transfer.moves.foreign import (
    ForeignItem,
    ForeignMessages,
    ForeignThread,
    message_body,
)

NAMED = 10  # broken lines that an error names
MEMBERS = {"thread", "user", "at", "message", "messages"}

_decode = msgspec.json.Decoder().decode


class JsonLine(msgspec.Struct):
    """One line, checked."""

    thread: str
    user: str
    at: float | None
    bodies: list[str]


def open_source(path: str) -> JsonLines:
    return JsonLines(path)


class JsonLines(ForeignMessages):
    """A file of messages. A temporary file holds the positions of each conversation's lines."""

    def __init__(self, path: str) -> None:
        self.name = f"jsonl:{os.path.basename(path)}"
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  # closed by `close`
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        self._index = apsw.Connection("")  # temporary, until the connection closes
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._index.close()
        self._file.close()

    # --- the index ------------------------------------------------------------------

    def _read(self) -> None:
        """Check every line, and record its position."""
        self._index.execute(
            "CREATE TABLE lines (thread TEXT, number INTEGER, position INTEGER, user TEXT, "
            "at REAL, items INTEGER)"
        )
        broken: list[str] = []
        add = "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)"
        with self._index:
            for number, position, text in self._lines():
                try:
                    line = read_line(text)
                except InvalidInput as error:
                    broken.append(f"line {number}: {error}")
                    if len(broken) == NAMED:
                        break
                    continue
                row = (line.thread, number, position, line.user, line.at, len(line.bodies))
                self._index.execute(add, row)
        if broken:
            raise InvalidInput(
                f"nothing was imported, because some lines of {self.name} are invalid; fix or "
                f"remove them, then run this again: {'; '.join(broken)}"
            )
        self._index.execute("CREATE INDEX by_thread ON lines (thread, number)")

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        position = 0
        for number, text in enumerate(self._file, 1):
            if text.strip():
                yield number, position, text
            position += len(text)

    # --- conversations --------------------------------------------------------------

    def size(self) -> int:
        (count,) = next(self._index.execute("SELECT coalesce(sum(items), 0) FROM lines"))
        return int(count)

    def threads(self) -> Iterator[ForeignThread]:
        rows = self._index.execute(
            "SELECT thread, max(user), min(nullif(user, '')) = max(user), min(at), max(at) "
            "FROM lines GROUP BY thread ORDER BY thread"
        )
        for thread, user, agreed, first, last in rows:
            yield ForeignThread(
                id=thread,
                owner=user,
                created=first,
                updated=last,
                refused="" if agreed in (None, 1) else "its lines name several users",
            )

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        rows = self._index.execute(
            "SELECT position FROM lines WHERE thread = ? ORDER BY number", (thread.id,)
        )
        for (position,) in rows:
            self._file.seek(position)
            line = read_line(self._file.readline())
            yield from (ForeignItem(body, line.at) for body in line.bodies)


def read_line(text: bytes) -> JsonLine:
    """Parse a line; raises `InvalidInput` with the mistake."""
    try:
        line: Any = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON ({error})") from error
    if not isinstance(line, dict):
        raise InvalidInput("it is not a JSON object")
    if unknown := sorted(line.keys() - MEMBERS):
        raise InvalidInput(f"it has {unknown[0]!r}; known are {', '.join(sorted(MEMBERS))}")
    if ("message" in line) == ("messages" in line):
        raise InvalidInput("it needs either message or messages")
    messages = line["messages"] if "messages" in line else [line["message"]]
    if not isinstance(messages, list):
        raise InvalidInput("messages is a list")
    user = line.get("user")
    return JsonLine(
        check_id(line.get("thread"), "thread"),
        "" if user is None else check_id(user, "user"),
        _time(line.get("at")),
        [message_body(message) for message in messages],
    )


def _time(at: Any) -> float | None:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError as error:
            raise InvalidInput(f"at is not a time: {error}") from error
        if at.tzinfo is None:
            raise InvalidInput("at has no time zone: add Z for UTC")
    return None if at is None else check_time(at, "at")
