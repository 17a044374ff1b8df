"""Actions that read a conversation: its window, its messages and what there is to say of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from msgspec import Meta, Struct
from msgspec.structs import replace

from stateward.actions.action import ActionCall, Actions, Rest
from stateward.actions.arguments import WORDS, After, InHeader, Limit
from stateward.actions.page import Page, before_number
from stateward.actions.threads import OneThread, thread_of
from stateward.errors import InvalidInput
from stateward.kinds import THREAD
from stateward.ops import Found, Log
from stateward.records import Change, Cursor, Late, Origin, Shaper, Summary, ThreadInfo
from stateward.repeats import find_repeats
from stateward.shapes import Lost, Shape
from stateward.shapes.window import translated
from stateward.state.about import ABOUT
from stateward.state.feeds import change_of
from stateward.state.journals import Journal
from stateward.state.receipts import receipt_of
from stateward.state.threads import Thread
from stateward.state.window_record import TurnReceipt, Window
from stateward.state.window_request import thread_info
from stateward.wire import EVENTS

MOST_SEARCHED = 200  # messages: a twentieth of a second for a hundred
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
LastEvent = Annotated[str | None, WORDS, InHeader("Last-Event-ID")]

TRANSCRIPTS = Actions(THREAD, for_one_user=True)


# --- windows ----------------------------------------------------------------------------


class ShowThread(OneThread, frozen=True, kw_only=True, rename={"as_": "as"}):
    """How much of a conversation: the last 20 messages, unless something is said.

    `as` is the shape that its messages are given in; by default as they were stored.
    """

    last: Limit | None = None
    turns: Limit | None = None
    max_tokens: Count | None = None
    oversized: Literal["raise", "shorten"] = "raise"
    after: After = None
    upto: After = None
    exact: bool = False
    as_: Shape | None = None


class ThreadWindow(Struct, frozen=True):
    """What a conversation gives a prompt, as `Thread.load` does.

    `system` and `lost` are of messages in another shape: the system prompt, where the shape has no
    such messages, and what it cannot hold.
    """

    id: str
    messages: list[dict[str, Any]]
    version: int
    cursor: str
    omitted: int
    created_at: datetime | None
    updated_at: datetime | None
    pinned: int
    tokens: int | None
    pending: tuple[str, ...]
    shortened: int
    system: str | None = None
    lost: tuple[Lost, ...] = ()


def window_of(id: str, window: Window) -> ThreadWindow:
    return ThreadWindow(
        id,
        window.messages,
        window.version,
        str(window.cursor),
        window.omitted,
        window.created_at,
        window.updated_at,
        window.pinned,
        window.tokens,
        window.pending,
        window.shortened,
    )


@TRANSCRIPTS.read(
    "show", ShowThread, ThreadWindow, rest=Rest("GET /v1/threads/{thread}", etag=True)
)
async def _show(call: ActionCall) -> ThreadWindow | None:
    """Get a window of a conversation."""
    asked: ShowThread = call.arguments
    is_default = asked.last is asked.turns is asked.max_tokens is None
    window = await thread_of(call).load(
        last=20 if is_default else asked.last,
        turns=asked.turns,
        max_tokens=asked.max_tokens,
        oversized=asked.oversized,
        after=asked.after,
        upto=asked.upto,
        exact=asked.exact,
        entries=asked.as_ is not None,
    )
    if not window.exists:
        return None
    shown = window_of(asked.thread, window)
    if asked.as_ is None:
        return shown
    to = translated(window, asked.as_)
    return replace(shown, messages=to.messages, system=to.system, lost=to.lost)


# --- messages ---------------------------------------------------------------------------


class MessagesOfThread(OneThread, frozen=True, kw_only=True):
    """A page of messages, the newest page first; `after` leads to the page of older ones."""

    limit: Limit = 100
    after: After = None
    breaks: bool = False  # look for signs of lost context, among at most 200 messages


class ReceiptShown(Struct, frozen=True):
    """What a turn was given, in numbers: see `TurnReceipt`."""

    version: int
    given: int
    pinned: int
    omitted: int
    summarised: int
    has_summary: bool
    shortened: int
    tokens: int | None
    last: int | None
    turns: int | None
    max_tokens: int | None
    documents: dict[str, int] | None  # versions
    workflows: list[str] | None
    left_out: dict[str, int]
    unread: bool


def receipt_shown(it: TurnReceipt) -> ReceiptShown:
    """Return a receipt with its fields by name: it is stored with shorter ones."""
    versions = None if it.documents is None else {n: of[0] for n, of in it.documents.items()}
    return ReceiptShown(
        *(it.version, it.given, it.pinned, it.omitted, it.summarised, it.summary is not None),
        *(it.shortened, it.tokens, it.last, it.turns, it.max_tokens, versions),
        *(None if it.workflows is None else sorted(it.workflows), it.left_out, it.unread),
    )


class ContextBreak(Struct, frozen=True):
    """A sign that the agent had lost its context: see `stateward.repeats`.

    `earlier` is the version of the message that had said it, if it is on the page.
    """

    kind: str
    evidence: str
    earlier: int | None
    score: float


class TranscriptMessage(Struct, frozen=True):
    """A message as it entered the conversation. The last one of a turn may have its receipt."""

    message: dict[str, Any]
    version: int
    cursor: str
    at: datetime
    key: str | None
    receipt: ReceiptShown | None
    breaks: list[ContextBreak] = []


@TRANSCRIPTS.read(
    "messages",
    MessagesOfThread,
    Page[TranscriptMessage],
    rest=Rest("GET /v1/threads/{thread}/messages"),
)
async def _messages(call: ActionCall) -> Page[TranscriptMessage] | None:
    """List messages with times, receipts and, on request, signs of lost context."""
    asked: MessagesOfThread = call.arguments
    if asked.breaks and asked.limit > MOST_SEARCHED:
        raise InvalidInput(f"with breaks=true the limit is at most {MOST_SEARCHED}")
    handle = thread_of(call).handle
    fetched = await handle.fetch(Log(0, before_number(asked.after), last=asked.limit, details=True))
    if not fetched.head.exists:
        return None
    entries = fetched.entries
    notes: dict[int, str] = {}
    if entries:
        # Receipts come with what backups read, which is read from the front.
        span = Log(entries[0].seq - 1, entries[-1].seq, first=2 * len(entries), whole=True)
        whole = await handle.fetch(span)
        notes = {entry.seq: entry.note for entry in whole.entries if entry.note is not None}
    shown = []
    for entry in entries:
        change, note = change_of(entry), notes.get(entry.seq)
        receipt = None if note is None else receipt_shown(receipt_of(note))
        shown.append(
            TranscriptMessage(
                change.message, change.version, str(change.cursor), change.at, change.key, receipt
            )
        )
    if asked.breaks:
        shown = await handle.scope.world.offload(_with_breaks, shown, handle.scope.shaper)
    return Page(shown, str(entries[0].seq) if len(entries) == asked.limit else None)


def _with_breaks(
    shown: Sequence[TranscriptMessage], shape: Shaper | None
) -> list[TranscriptMessage]:
    """Return the messages, with the signs of lost context in them."""
    breaks: dict[int, list[ContextBreak]] = {}
    for sign in find_repeats([each.message for each in shown], shape=shape):
        earlier = None if sign.earlier is None else shown[sign.earlier].version
        breaks.setdefault(sign.at, []).append(
            ContextBreak(sign.kind, sign.evidence, earlier, sign.score)
        )
    return [replace(each, breaks=breaks.get(at, [])) for at, each in enumerate(shown)]


# --- streams ----------------------------------------------------------------------------


class ChangesOfThread(OneThread, frozen=True, kw_only=True):
    """Where to begin; `follow=false` ends when all that there is was told."""

    after: After = None
    follow: bool = True
    last_event: LastEvent = None


class MessageEvent(Struct, frozen=True):
    """One message as it entered a conversation; its cursor is the id of the event."""

    message: dict[str, Any]
    version: int
    cursor: str
    at: datetime
    key: str | None


@TRANSCRIPTS.read(
    "changes",
    ChangesOfThread,
    MessageEvent,
    rest=Rest("GET /v1/threads/{thread}/changes", gives=EVENTS),
)
async def _changes(call: ActionCall) -> AsyncGenerator[MessageEvent, None]:
    """Stream every message after a cursor, and new ones as they arrive."""
    return await changes_of(thread_of(call), call.arguments)


def begins_after(asked: Any) -> str | None:
    """Return where a stream continues: after the last event that the client has, or `after`."""
    after: str | None = asked.after
    return after if asked.last_event is None else unquote(asked.last_event)


async def changes_of(of: Thread | Journal, asked: Any) -> AsyncGenerator[MessageEvent, None]:
    """Return the messages of a conversation, or the events of a journal, after a cursor."""
    after = Cursor.of(begins_after(asked) or 0)
    await of.handle.fetch()  # another user's is refused before the stream begins
    return _events(of.changes(after, follow=asked.follow))


async def _events(changes: AsyncGenerator[Change, None]) -> AsyncGenerator[MessageEvent, None]:
    try:
        async for new in changes:
            yield MessageEvent(new.message, new.version, str(new.cursor), new.at, new.key)
    finally:
        await changes.aclose()


# --- beside its messages ----------------------------------------------------------------


class ThreadAbout(Struct, frozen=True):
    """What there is to say of a conversation beside its messages."""

    info: ThreadInfo
    vars: dict[str, Any]
    summary: Summary | None
    origin: Origin | None
    late: list[Late]
    leader: str | None  # who has its lease, or had it and did not give it back


@TRANSCRIPTS.read(
    "about", OneThread, ThreadAbout, for_one_user=True, rest=Rest("GET /v1/threads/{thread}/about")
)
async def _about(call: ActionCall) -> ThreadAbout | None:
    """Get a conversation's title, labels, variables, summary, origin and late turns."""
    thread = thread_of(call)
    fetched, variables, summary, origin, late = await asyncio.gather(
        thread.handle.fetch(documents=(ABOUT,)),
        thread.vars.get(),
        thread.summary(),
        thread.origin(),
        thread.late(),
    )
    if not fetched.head.exists:
        return None
    info = thread_info(Found(thread.handle.entity, fetched.head, fetched.documents))
    lease = fetched.head.lease
    leader = None if lease is None else lease.holder
    return ThreadAbout(info, variables.value, summary, origin, late, leader)
