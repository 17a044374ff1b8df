"""The REST API of what is read together: a context, and the feed of changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct

from stateward.kinds import THREAD
from stateward.records import EntityChange, WorkflowInfo
from stateward.server.reply import Reply
from stateward.server.rest import Limit, answer, events, whose
from stateward.server.rest_documents import NamedDocument, named_document
from stateward.server.rest_threads import ThreadWindow, begins_after, window_of
from stateward.server.route import EVENTS, LAST_EVENT, RestCall, Routes
from stateward.state.change_feed import chosen_kinds, cursors_of


class ContextQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose context, in which conversation, and how much of that: the last 20 messages."""

    user: str
    thread: str
    last: Limit | None = None
    turns: Limit | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    oversized: Literal["raise", "shorten"] = "raise"


class FeedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which kinds, separated by commas, and where to begin."""

    kinds: str | None = None
    after: str | None = None
    follow: bool = True


class ContextShown(Struct, frozen=True):
    """All that an agent needs to continue: conversation, user and unfinished work."""

    thread: ThreadWindow
    exists: bool
    user: list[NamedDocument]
    workflows: list[WorkflowInfo]


CONTEXT = Routes("context")


@CONTEXT.logged("context read", kind=THREAD, name="thread", reads=True)
@CONTEXT.route("GET /v1/context", "read", ContextShown, ContextQuery)
async def _context(call: RestCall) -> Reply:
    """Get a window, the user's documents and unfinished work in one read."""
    query: ContextQuery = call.query
    user = whose(call, query.user)
    assert isinstance(user, str)
    context = await call.store.context(
        user=user,
        thread=query.thread,
        last=query.last,
        turns=query.turns,
        max_tokens=query.max_tokens,
        oversized=query.oversized,
    )
    documents = [named_document(name, of) for name, of in context.user.items()]
    window = window_of(query.thread, context.thread)
    return answer(ContextShown(window, context.thread.exists, documents, context.workflows))


@CONTEXT.route(
    "GET /v1/changes",
    "read",
    EntityChange,
    FeedQuery,
    headers=(LAST_EVENT,),
    gives=EVENTS,
    right="changes.read",
)
async def _changes(call: RestCall) -> Reply:
    """Stream what has changed, and changes as they happen."""
    query: FeedQuery = call.query
    kinds = None if query.kinds is None else query.kinds.split(",")
    after = begins_after(call, query.after)
    chosen_kinds(kinds), cursors_of(after)  # nonsense is refused before the stream begins
    feed = call.store.changes(kinds, after=after, wait=query.follow)
    changes = cast("AsyncGenerator[EntityChange, None]", feed)
    stream = events(changes, lambda change: change.cursor, lambda change: change)
    return Reply(200, headers={"content-type": EVENTS}, events=stream, follows=query.follow)
