"""The stored form of a stream: an answer while it is written. No I/O.

Its log has an entry for each flush, and one where a delivery begins and where it ends. The head's
status is that of the answer, the label the key of the request, the lease the writer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stateward.codec import encode, shown
from stateward.errors import InvalidInput
from stateward.kinds import STREAM
from stateward.ops import Append, Commit, Found, SetHead, StatusIn, Unheld
from stateward.records import Cursor, moment

STREAMING, DONE, STOPPED, INTERRUPTED = "streaming", "done", "stopped", "interrupted"
RETAIN = 3600.0  # seconds after its last entry that a stream is kept
FLUSH_SECONDS = 0.05  # the longest time between two flushes, while there is something to flush
FLUSH_BYTES = 4096  # flushed without waiting for that time
POLL_SECONDS = 0.05  # between two looks of a reader; all readers of a process look together
WHILE_STREAMING = StatusIn((STREAMING,))

Ended = Literal["done", "stopped", "interrupted"]


class LiveEvent(Struct, frozen=True):
    """A part of an answer that is being written, from `thread.live`.

    `begin`: a delivery has begun to answer; what was read of an earlier one is void. `delta`: what
    was written since, joined in `text` and one by one in `parts`; `late` if the store could not
    take it in time. `end`: nothing more comes. `status` is then `done`, with the stored `message`;
    `stopped`, perhaps with a `message` that was stored all the same; `interrupted`, if the writer
    has failed or died; or `absent`, if there is no such request. Pass `cursor` as `after` to resume
    behind the event.
    """

    kind: Literal["begin", "delta", "end"]
    cursor: str
    text: str = ""
    parts: tuple[Any, ...] = ()
    late: bool = False
    status: Literal["", "done", "stopped", "interrupted", "absent"] = ""
    message: dict[str, Any] | None = None


class LiveAnswer(Struct, frozen=True):
    """An answer that is or was written live within the last hour, from `thread.lives`."""

    request: str
    status: Literal["streaming", "done", "stopped", "interrupted"]
    started_at: datetime
    updated_at: datetime


class StreamEntry(Struct, frozen=True, omit_defaults=True):
    """One entry of the log of a stream."""

    parts: tuple[Any, ...] = ()
    late: bool = False
    begins: bool = False
    ends: Literal["", "done", "stopped", "interrupted"] = ""
    repeated: int = 0  # the stored answer has the text of the delivery begun there: removed here

    @property
    def text(self) -> str:
        """The parts that are text, joined."""
        return "".join(part for part in self.parts if type(part) is str)


BEGIN = encode({"begins": True}, "the beginning")
read_entry = msgspec.json.Decoder(StreamEntry).decode


def flushed(parts: Sequence[Any], *, late: bool) -> str:
    """Return the entry for parts of an answer; adjacent texts become one."""
    joined: list[Any] = []
    for part in parts:
        if type(part) is str and joined and type(joined[-1]) is str:
            joined[-1] += part
        else:
            joined.append(part)
    entry: dict[str, Any] = {"parts": joined}
    return encode(entry | {"late": True} if late else entry, "what was written")


def ended(status: Ended, repeated: int = 0) -> str:
    """Return the entry that ends a stream."""
    entry: dict[str, Any] = {"ends": status}
    return encode(entry | {"repeated": repeated} if repeated else entry, "the end")


def is_settling(op: Commit) -> bool:
    """Return whether a commit only ends a stream whose writer is gone, as any reader may."""
    if op.entity.kind != STREAM or op.checks != (Unheld(), WHILE_STREAMING):
        return False
    statuses: tuple[Ended, ...] = ("done", "interrupted")
    ends = [(Append((ended(each),)), SetHead(status=each)) for each in statuses]
    return any(op.writes == writes for writes in ends)


class LiveCursor(Struct, frozen=True):
    """A position in a stream: behind an entry of its log, and so many characters of text."""

    entry: Cursor = Cursor(0)
    characters: int = 0

    def __str__(self) -> str:
        return f"{self.characters}:{self.entry}"

    @classmethod
    def of(cls, text: str | None) -> LiveCursor:
        """Return the cursor of an event by its text; None: the beginning."""
        if text is None:
            return cls()
        characters, colon, entry = text.partition(":") if type(text) is str else ("", "", "")
        if not colon or not characters.isascii() or not characters.isdigit():
            raise InvalidInput(
                f"{shown(text)} is not a position in a live answer; pass the cursor of the last "
                "event that you have processed"
            )
        return cls(Cursor.of(entry), int(characters))


def live_answer(found: Found) -> LiveAnswer:
    """Return a stream as listed."""
    head = found.head
    times = (moment(head.created), moment(head.updated))
    return LiveAnswer(head.label, head.status, *times)  # type: ignore[arg-type]
