"""Requests for windows, and the windows made of the answers. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import decode
from stateward.context.compaction import Compaction, Kept
from stateward.context.tool_pairs import Message
from stateward.context.window import Bounds, Picked
from stateward.layers.outage.asked import WaitingQuestion
from stateward.ops import Entity, Fetch, Found, Head, Log
from stateward.records import Change, Cursor, ThreadInfo, moment
from stateward.state.about import about_of
from stateward.state.conversation_life import Life
from stateward.state.window_record import Sight, Unanswered, Window

FIRST_ENTRIES = 4  # enough to see whether a thread begins with system messages


class WindowRequest(Struct, frozen=True):
    """The part of a thread to read."""

    entity: Entity
    owner: str | None
    bounds: Bounds
    since: Cursor = Cursor(0)
    upto: Cursor | None = None
    compaction: Compaction | None = None
    entries: bool = False  # with the number, time and key of each message
    asked: bool = True  # with the questions that wait for their answers

    @property
    def is_plain(self) -> bool:
        """Whether nothing but a number of messages is requested, which is the usual case."""
        plain = self.bounds.plain and self.compaction is None and self.upto is None
        return plain and not self.entries and self.since.version == 0

    @property
    def limit(self) -> int | None:
        """The number of the last message that is wanted."""
        return None if self.upto is None else self.upto.version


def with_asked(window: Window, asked: Sequence[WaitingQuestion], bounds: Bounds) -> Window:
    """Return the window of these bounds with questions that wait; without some if they are many."""
    questions = tuple(Unanswered(each.key, decode(each.body), moment(each.at)) for each in asked)
    messages = window.messages
    tokens = window.tokens
    if window._entries is None:
        shown = [each.message for each in questions]
        messages = [*messages, *shown]
        tokens = None if tokens is None else tokens + sum(bounds.tokens(shown))
    return replace(window, messages=messages, tokens=tokens, unanswered=questions)


def pins(request: WindowRequest) -> bool:
    """Whether the window starts with the thread's leading system messages."""
    verbatim = request.bounds.verbatim and request.compaction is None
    return not verbatim and request.since.version == 0


def beginning(request: WindowRequest, after: int) -> Fetch:
    log = Log(after, request.limit, first=FIRST_ENTRIES, details=True)
    return Fetch(request.entity, request.owner, log)


def plain_window(
    request: WindowRequest, head: Head, messages: list[Message], read: float
) -> Window:
    """Return the window of a plain request, read at this monotonic time."""
    version, bounds = head.version, (request.bounds.last, None, None, 0, None)
    return Window(
        messages,
        version,
        head.exists,
        head.live - len(messages),
        Cursor(version, head.stamp or None),
        head.created,
        head.updated,
        sight=Sight(request.entity, head.commits, (), bounds, Life.of(head, read)),
    )


def window_of(
    request: WindowRequest,
    head: Head,
    picked: Picked,
    summary: Kept,
    pinned: int,
    entries: tuple[Change, ...] | None,
    read: float,
) -> Window:
    bounds, upto = request.bounds, None if request.upto is None else request.upto.version
    asked = (bounds.last, bounds.turns, bounds.max_tokens, request.since.version, upto)
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
        Sight(request.entity, head.commits, picked.skipped, asked, Life.of(head, read)),
    )


def thread_info(found: Found, cursor: str = "") -> ThreadInfo:
    """Return a thread as listed."""
    about, head = about_of(found), found.head
    return ThreadInfo(
        found.entity.id,
        head.owner or None,
        head.version,
        head.live,
        moment(head.created),
        moment(head.updated),
        None if head.expires is None else moment(head.expires),
        about.get("title"),
        about.get("labels", {}),
        about.get("archived") is True,
        cursor,
    )
