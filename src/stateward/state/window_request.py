"""A window that is asked for, and one that was read."""

from __future__ import annotations

from msgspec import Struct

from stateward.context.compaction import Compaction, Kept
from stateward.context.tool_pairs import Message
from stateward.context.window import Bounds, Picked
from stateward.ops import Entity, Fetch, Found, Head, Log
from stateward.records import Change, Cursor, Sight, ThreadInfo, Window, moment
from stateward.state.about import is_archived, title_and_labels

FIRST_ENTRIES = 4  # enough to see whether a thread begins with system messages


class WindowRequest(Struct, frozen=True):
    """Which part of which thread."""

    entity: Entity
    owner: str | None
    bounds: Bounds
    since: Cursor = Cursor(0)
    upto: Cursor | None = None
    compaction: Compaction | None = None
    entries: bool = False  # with the number, time and key of each message

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for but how many messages: most often so."""
        plain = self.bounds.plain and self.compaction is None and self.upto is None
        return plain and not self.entries and self.since.version == 0

    @property
    def limit(self) -> int | None:
        """The number of the last message that is wanted."""
        return None if self.upto is None else self.upto.version


def pins(wanted: WindowRequest) -> bool:
    """Whether the system messages at the thread's beginning are to come first."""
    verbatim = wanted.bounds.verbatim and wanted.compaction is None
    return not verbatim and wanted.since.version == 0


def beginning(wanted: WindowRequest, after: int) -> Fetch:
    log = Log(after, wanted.limit, first=FIRST_ENTRIES, details=True)
    return Fetch(wanted.entity, wanted.owner, log)


def plain_window(wanted: WindowRequest, head: Head, messages: list[Message]) -> Window:
    """The window of a request that is plain."""
    version = head.version
    return Window(
        messages,
        version,
        head.exists,
        head.live - len(messages),
        Cursor(version, head.stamp or None),
        head.created,
        head.updated,
        sight=Sight(wanted.entity, head.commits, (), (wanted.bounds.last, None, None, 0, None)),
    )


def window_of(
    wanted: WindowRequest,
    head: Head,
    picked: Picked,
    summary: Kept,
    pinned: int,
    entries: tuple[Change, ...] | None,
) -> Window:
    bounds, upto = wanted.bounds, None if wanted.upto is None else wanted.upto.version
    asked = (bounds.last, bounds.turns, bounds.max_tokens, wanted.since.version, upto)
    return Window(
        picked.messages,
        head.version,
        head.exists,
        head.live - len(picked.messages),
        Cursor(head.version, head.stamp or None),
        head.created,
        head.updated,
        summary.text,
        summary.messages,
        pinned,
        None if bounds.max_tokens is None else picked.tokens,
        picked.pending,
        picked.shortened,
        entries,
        Sight(wanted.entity, head.commits, picked.skipped, asked),
    )


def thread_info(found: Found, cursor: str = "") -> ThreadInfo:
    """A thread as listed."""
    title, labels = title_and_labels(found)
    head = found.head
    return ThreadInfo(
        found.entity.id,
        head.owner or None,
        head.version,
        head.live,
        moment(head.created),
        moment(head.updated),
        None if head.expires is None else moment(head.expires),
        title,
        labels,
        is_archived(found),
        cursor,
    )
