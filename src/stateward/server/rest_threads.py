"""The REST API of conversations."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from msgspec import Meta, Struct
from msgspec.structs import replace

from stateward.actions.page import Page
from stateward.errors import StateConflictError
from stateward.kinds import EFFECT, FORK, THREAD
from stateward.records import Appended, Change, Cursor, ThreadInfo
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Whom, answer, etag, events, expected, missing, page, whose
from stateward.server.route import EVENTS, KEY, LAST_EVENT, MATCH, NONE_MATCH, RestCall, Routes
from stateward.shapes import Lost, Shape
from stateward.shapes.window import translated
from stateward.state.handle import Handle
from stateward.state.journals import Journal
from stateward.state.threads import Thread
from stateward.state.window_record import Window

Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class ThreadsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which conversations, those first that were touched last."""

    user: str | None = None
    prefix: str = ""
    label: str | None = None  # NAME=VALUE
    archived: bool = False
    limit: Limit = 100
    after: str | None = None


class WindowQuery(Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """How much of a conversation: the last 20 messages, unless something is said.

    `as` is the shape that its messages are given in; by default as they were stored.
    """

    user: str | None = None
    last: Limit | None = None
    turns: Limit | None = None
    max_tokens: Count | None = None
    oversized: Literal["raise", "shorten"] = "raise"
    after: str | None = None
    upto: str | None = None
    exact: bool = False
    as_: Shape | None = None


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to begin; `follow=false` ends when all that there is was told."""

    user: str | None = None
    after: str | None = None
    follow: bool = True


class AppendBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for the end of a conversation, and a merge patch for its variables."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    vars: dict[str, Any] | None = None


class ForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of the new conversation, and at which version or cursor it leaves the old one."""

    to: str
    at: str | int | None = None


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


class AppendAnswer(Struct, frozen=True):
    """What became of an append: `stored`, or a `duplicate` of one with the same key."""

    status: Literal["stored", "duplicate"]
    version: int
    cursor: str


class ForkAnswer(Struct, frozen=True):
    """The new conversation."""

    id: str
    user: str | None


class MessageEvent(Struct, frozen=True):
    """One message as it entered a conversation; its cursor is the id of the event."""

    message: dict[str, Any]
    version: int
    cursor: str
    at: datetime
    key: str | None


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


def _thread(call: RestCall) -> Thread:
    return call.store.thread(call.path["thread"], whose(call, call.query.user))


THREADS = Routes()


@THREADS.route("GET /v1/threads", "read", Page[ThreadInfo], ThreadsQuery)
async def _list(call: RestCall) -> Reply:
    """List conversations, newest first."""
    query: ThreadsQuery = call.query
    labels = None
    if query.label is not None:
        name, equals, value = query.label.partition("=")
        if not equals:
            raise Refusal(400, "label is NAME=VALUE")
        labels = {name: value}
    listing = call.store.threads(
        whose(call, query.user),
        prefix=query.prefix,
        labels=labels,
        archived=query.archived,
        order="recent",
        before=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


@THREADS.logged("thread read", reads=True)
@THREADS.route("GET /v1/threads/{thread}", "read", ThreadWindow, WindowQuery)
async def _load(call: RestCall) -> Reply:
    """Get a window of a conversation."""
    query: WindowQuery = call.query
    last = query.last
    if last is None and query.turns is None and query.max_tokens is None:
        last = 20
    window = await _thread(call).load(
        last=last,
        turns=query.turns,
        max_tokens=query.max_tokens,
        oversized=query.oversized,
        after=query.after,
        upto=query.upto,
        exact=query.exact,
        entries=query.as_ is not None,
    )
    if not window.exists:
        raise missing("thread", call.path["thread"])
    tag = etag(window.cursor.version, window.cursor.stamp)
    shown = window_of(call.path["thread"], window)
    if query.as_ is not None:
        translation = translated(window, query.as_)
        shown = replace(
            shown, messages=translation.messages, system=translation.system, lost=translation.lost
        )
    return answer(shown, headers={"etag": tag})


@THREADS.route(
    "POST /v1/threads/{thread}/messages",
    "write",
    AppendAnswer,
    Whom,
    AppendBody,
    status=201,
    headers=(KEY, MATCH, NONE_MATCH),
    writes=(THREAD,),
)
async def _append(call: RestCall) -> Reply:
    """Append messages, all or none."""
    body: AppendBody = call.body
    thread = _thread(call)
    key, expect = call.headers.get(KEY.lower()), expected(call)
    appending = thread.append(*body.messages, key=key, expect=expect, vars=body.vars)
    return await appended(thread.handle, appending)


async def appended(handle: Handle, appending: Coroutine[Any, Any, Appended]) -> Reply:
    """Return the outcome of an append; if another writer was faster, refuse with its version."""
    try:
        done = await appending
    except StateConflictError as error:
        head = (await handle.fetch()).head
        raise Refusal(412, str(error), etag=etag(head.version, head.stamp)) from error
    again = done.status == "duplicate"
    outcome = AppendAnswer("duplicate" if again else "stored", done.version, str(done.cursor))
    headers = {"etag": etag(done.cursor.version, done.cursor.stamp)}
    if again:
        headers["idempotent-replayed"] = "true"
    return answer(outcome, 200 if again else 201, headers)


@THREADS.logged("thread delete", makes_room=True)
@THREADS.route("DELETE /v1/threads/{thread}", "write", None, Whom, writes=(THREAD, EFFECT))
async def _delete(call: RestCall) -> Reply:
    """Remove a conversation."""
    await _thread(call).delete()
    return Reply(204)


@THREADS.logged("thread fork", "to", "at")
@THREADS.route(
    "POST /v1/threads/{thread}/fork",
    "write",
    ForkAnswer,
    Whom,
    ForkBody,
    status=201,
    writes=(THREAD, FORK),
)
async def _fork(call: RestCall) -> Reply:
    """Fork a conversation: start another one with its messages."""
    body: ForkBody = call.body
    thread = _thread(call)
    if not (await thread.handle.fetch()).head.exists:
        raise missing("thread", thread.id)
    new = await thread.fork(to=body.to, at=body.at)
    return answer(ForkAnswer(new.id, new.user), 201)


def message_event(change: Change) -> MessageEvent:
    return MessageEvent(change.message, change.version, str(change.cursor), change.at, change.key)


def begins_after(call: RestCall, after: str | None) -> str | None:
    """Where a stream continues: after the last event that the client has, or as it says."""
    last_event = call.headers.get(LAST_EVENT.lower())
    return after if last_event is None else unquote(last_event)


@THREADS.logged("thread read", reads=True)
@THREADS.route(
    "GET /v1/threads/{thread}/changes",
    "read",
    MessageEvent,
    ChangesQuery,
    headers=(LAST_EVENT,),
    gives=EVENTS,
)
async def _changes(call: RestCall) -> Reply:
    """Stream every message after a cursor, and new ones as they arrive."""
    return await streamed_changes(call, _thread(call))


async def streamed_changes(call: RestCall, of: Thread | Journal) -> Reply:
    """Stream the messages of a conversation, or the events of a journal, after a cursor."""
    query: ChangesQuery = call.query
    after = Cursor.of(begins_after(call, query.after) or 0)
    await of.handle.fetch()  # another user's is refused before the stream begins
    changes = of.changes(after, follow=query.follow)
    stream = events(changes, lambda change: str(change.cursor), message_event)
    return Reply(200, headers={"content-type": EVENTS}, events=stream, follows=query.follow)
