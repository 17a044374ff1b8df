"""Questions that wait for their answers: a document of their thread, until a turn takes them in.

A turn stores its question before its model is asked. The log holds whole turns only, so the
question waits in this document, and the commit of its answer appends both and takes it out. If no
answer comes, the next turn of the thread appends it before its own: then the document remembers
its number, so that a later answer to it moves it and stores it no second time. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stateward.ops import Append, Commit, Delete, DocumentAt, Put, SetHead, Value, Write

ASKED = "asked"  # the document; also the status of a thread in which a question waits
MOST_MOVED = 20  # questions without an answer in the log that are remembered


class WaitingQuestion(Struct, frozen=True, omit_defaults=True):
    """A question of a request, stored before its answer."""

    key: str
    message: msgspec.Raw
    at: float = 0.0  # seconds since the epoch, by the asking machine
    alone: bool = False  # its turn holds the lease of the thread, not one of its own
    moved_by: str = ""  # the key of the later turn that has appended it
    behind: int = 0  # so many messages follow it in that append

    @property
    def body(self) -> str:
        """The message as JSON text."""
        return bytes(self.message).decode()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[WaitingQuestion]).decode


def asked_in(value: Value | None) -> list[WaitingQuestion]:
    """Return the questions in the document, oldest first."""
    return [] if value is None else _decode(value.json)


def asked_by(value: Value | None, key: str) -> WaitingQuestion | None:
    """Return the question of a request."""
    return next((each for each in asked_in(value) if each.key == key), None)


def waiting(asked: Iterable[WaitingQuestion]) -> list[WaitingQuestion]:
    """Return the questions that are not in the log."""
    return [each for each in asked if not each.moved_by]


def moved_by(commit: Commit) -> dict[str, int] | None:
    """Return the questions of others that a turn's commit appends, and what is behind each.

    None: it is not the commit of a turn with a question.
    """
    if not any(type(check) is DocumentAt and check.name == ASKED for check in commit.checks):
        return None
    append = commit.writes[0]
    left = [write for write in commit.writes if type(write) is Put and write.name == ASKED]
    asked = [each for put in left for each in _decode(put.value)]
    key = append.key if type(append) is Append else None
    return {each.key: each.behind for each in asked if each.moved_by == key}


def unchanged(value: Value | None) -> DocumentAt:
    """Return the check that the document is as it was read."""
    return DocumentAt(ASKED, 0) if value is None else DocumentAt(ASKED, value.version, value.stamp)


def stored_asked(asked: Sequence[WaitingQuestion]) -> tuple[Write, ...]:
    """Return the writes that leave these questions in the document."""
    moved = [each for each in asked if each.moved_by][-MOST_MOVED:]
    left = [*moved, *waiting(asked)]
    if not left:
        return Delete(ASKED), SetHead(status="")
    status = ASKED if len(left) > len(moved) else ""
    return Put(ASKED, _encode(left).decode()), SetHead(status=status)


def taken_in(value: Value | None, key: str, behind: Mapping[str, int] = {}) -> tuple[Write, ...]:
    """Return the writes for an append under this key: its question no longer waits.

    Neither do those that the append holds with so many messages `behind` them, by their keys.
    """
    asked = asked_in(value)
    left = [
        replace(each, moved_by=key, behind=behind[each.key]) if each.key in behind else each
        for each in asked
        if each.key != key
    ]
    return () if left == asked else stored_asked(left)
