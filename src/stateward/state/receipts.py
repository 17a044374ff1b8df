"""Receipts of turns: stored as the note of an append, later resolved to what the model saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stateward.codec import decode
from stateward.context.compaction import Kept
from stateward.errors import InvalidInput
from stateward.layers.outage.edits import Edits
from stateward.ops import Entity, Entry, Fetched, Found, Head, Log, Value, digest_of
from stateward.records import WorkflowInfo, moment
from stateward.state.conversation_life import Life
from stateward.state.window_record import Context, Gone, TurnReceipt, Window

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TurnReceipt).decode
_decode_summary = msgspec.json.Decoder(Kept).decode


def note_of(saw: Any, entity: Entity, owner: str | None) -> tuple[str, Life | None]:
    """Encode the receipt of `saw` for the append, and return the life in which it was read.

    Raises if `saw` belongs to another thread.
    """
    if saw is UNREAD:
        return _encode(UNREAD).decode(), None
    window = saw.thread if isinstance(saw, Context) else saw
    if not isinstance(window, Window):
        raise InvalidInput(
            "saw= is the window or the context that the model was given, of thread.load(), "
            f"store.context() or a turn: not a {type(saw).__name__}"
        )
    note = _encode(saw.receipt).decode()
    if window.sight is None or window.sight.entity != entity:
        raise InvalidInput(
            f"saw= is of another thread; pass what was loaded from the thread {entity.id!r}"
        )
    if isinstance(saw, Context) and saw.owner != owner:
        raise InvalidInput(
            f"saw= has documents of the user {saw.owner!r}: append to their thread, "
            f"store.thread({entity.id!r}, user=...)"
        )
    return note, window.sight.life


def life_of(saw: Any) -> Life | None:
    """Return the life of the conversation in which `saw` was read; None if it was not read."""
    window = saw.thread if isinstance(saw, Context) else saw
    sight = window.sight if isinstance(window, Window) else None
    return None if sight is None else sight.life


def receipt_of(note: str) -> TurnReceipt:
    """Decode the receipt in a note."""
    return _decode(note)


# The receipt of a turn that was answered while the store could not be read.
UNREAD = TurnReceipt(0, None, 0, 0, unread=True)


class Recalled:
    """The messages of a receipt, located in the thread as it is now.

    A receipt counts messages from both ends of the thread as it was then. Messages removed since
    then still count; `Edits` lists them.
    """

    def __init__(self, receipt: TurnReceipt, edits: Edits, fetched: Fetched) -> None:
        self.gone: list[Gone] = []
        self.numbers: tuple[int, ...] = ()  # of the messages that were given: see `messages`
        self.receipt = receipt
        self._head = fetched.head
        self._changed = edits.after(receipt.commits)
        self._beginning: dict[int, Entry] = {}
        self._end: dict[int, Entry] = {}
        self._lowest = 0  # number of the oldest message read so far; 0: none
        self._top = receipt.version if receipt.upto is None else min(receipt.upto, receipt.version)
        self._is_countable = (
            not fetched.reset and edits.since <= receipt.commits and self._counts_agree()
        )

    def _counts_agree(self) -> bool:
        """Whether every removed message is accounted for."""
        head, receipt = self._head, self.receipt
        if head.base:
            return True  # the numbers tell which messages were trimmed
        then = receipt.version - receipt.omitted - receipt.given - receipt.pinned
        since = sum(why == "removed" for why in self._changed.values())
        return head.version - head.live == then + since

    def beginning(self) -> Log | None:
        """Return the range to read for the pinned messages, or None."""
        if not self._is_countable or not self.receipt.pinned:
            return None
        return Log(0, self._top, first=self.receipt.pinned, details=True)

    def older(self, page: int) -> Log | None:
        """Return the next range to read for the others, newest first; None when done."""
        if not self._is_countable or len(self._numbers()) >= self._wanted or self._lowest == 1:
            return None
        upto = self._lowest - 1 if self._lowest else self._top
        return Log(0, upto, last=min(page, self._wanted), details=True)

    def read_beginning(self, entries: tuple[Entry, ...]) -> None:
        self._beginning = {entry.seq: entry for entry in entries}

    def read_older(self, entries: tuple[Entry, ...]) -> None:
        self._end |= {entry.seq: entry for entry in entries}
        self._lowest = entries[0].seq if entries else 1

    @property
    def _wanted(self) -> int:
        return self.receipt.given + len(self.receipt.skipped)

    def _numbers(self) -> list[int]:
        """Return the numbers of the last messages of then, as far as read; newest first."""
        if not self._lowest:
            return []
        removed = (
            number
            for number, why in self._changed.items()
            if why == "removed" and self._lowest <= number <= self._top
        )
        return sorted({*self._end, *removed}, reverse=True)[: self._wanted]

    def _pinned(self) -> list[int]:
        there = max(self._beginning, default=self._top)
        removed = (n for n, why in self._changed.items() if why == "removed" and n <= there)
        return sorted({*self._beginning, *removed})[: self.receipt.pinned]

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that are unchanged; all others are added to `gone`."""
        receipt, base = self.receipt, self._head.base
        if not self._is_countable:
            if receipt.given or receipt.pinned:
                self.gone.append(Gone("message", "", "unknown"))
            return []
        numbers = [n for at, n in enumerate(self._numbers()) if at not in receipt.skipped][::-1]
        missing = receipt.given - len(numbers)
        trimmed = [*range(base - missing + 1, base + 1)] if missing <= base else []
        pinned: list[int] = [] if base else self._pinned()
        for _ in range(receipt.pinned - len(pinned) + missing - len(trimmed)):
            self.gone.append(Gone("message", "", "trimmed" if base else "unknown"))
        self.gone += [Gone("message", str(number), "trimmed") for number in trimmed]
        self.numbers = (*pinned, *trimmed, *numbers)
        shown = []
        for number in (*pinned, *numbers):
            entry = self._end.get(number) or self._beginning.get(number)
            why = self._changed.get(number)
            if entry is None or why is not None:
                name = str(number)
                removed = Gone("message", name, "removed")
                self.gone.append(removed if entry is None else Gone("message", name, "edited"))
            else:
                shown.append(decode(entry.body))
        if receipt.shortened:
            self.gone.append(Gone("message", "", "shortened"))
        return shown

    def summary(self, value: Value | None) -> str | None:
        """Return the summary that was given, if it is unchanged."""
        if self.receipt.summary is None:
            return None
        text = None if value is None else _decode_summary(value.json).text
        if text is not None and digest_of((text,)) == self.receipt.summary:
            return text
        self.gone.append(Gone("summary", "", "deleted" if text is None else "changed"))
        return None

    def workflow(self, found: Found) -> WorkflowInfo | None:
        """Return a workflow that was active then, if it is unchanged."""
        digest, touched = (self.receipt.workflows or {})[found.entity.id]
        if found.head.exists:
            from stateward.state.workflow_record import workflow_info  # few receipts need it

            info = workflow_info(found)
            if info.digest == digest:
                return msgspec.structs.replace(info, updated_at=moment(touched))
        id, exists = found.entity.id, found.head.exists
        self.gone.append(Gone("workflow", id, "changed" if exists else "deleted"))
        return None


def end_of(entries: list[Entry], head: Head) -> Entry | None:
    """Return the last entry of the append that the first entry belongs to; None if not read yet."""
    same = [entry for entry in entries if entry.stamp == entries[0].stamp]
    if len(same) < len(entries) or same[-1].seq == head.version:
        return same[-1]
    return None


def stale_documents(
    versions: Mapping[str, tuple[int, str | None]], there: Mapping[str, Value]
) -> list[Gone]:
    """Return the documents that have another version now, or were deleted."""
    return [
        Gone("document", name, "changed" if name in there else "deleted")
        for name, then in versions.items()
        if name not in there or (there[name].version, there[name].stamp) != then
    ]
