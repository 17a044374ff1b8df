"""The REST API of what is read together, of feeds, of journals, and of the store itself."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from stateward.engine import Namespaces
from stateward.errors import InvalidInput
from stateward.records import Cursor, EntityChange, ErasureReceipt, WorkflowInfo
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Whom, answer, events, expected, whose
from stateward.server.rest_documents import NamedDocument, named_document
from stateward.server.rest_threads import (
    AppendAnswer,
    ChangesQuery,
    MessageEvent,
    ThreadWindow,
    appended,
    begins_after,
    message_event,
    window_of,
)
from stateward.server.route import EVENTS, KEY, LAST_EVENT, MATCH, NONE_MATCH, RestCall, RestRoute
from stateward.state.change_feed import chosen_kinds, cursors_of
from stateward.state.journals import Journal

LINES = "application/x-ndjson"
PIECE = 1 << 16  # bytes of an export that are sent at once


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


class EventsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Events for the end of a journal."""

    events: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class ContextShown(Struct, frozen=True):
    """All that an agent needs to go on: conversation, user and unfinished work."""

    thread: ThreadWindow
    exists: bool
    user: list[NamedDocument]
    workflows: list[WorkflowInfo]


class NamespaceNames(Struct, frozen=True):
    """Namespaces, by the bytes of their names."""

    items: list[str]


async def _context(call: RestCall) -> Reply:
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


async def _changes(call: RestCall) -> Reply:
    query: FeedQuery = call.query
    kinds = None if query.kinds is None else query.kinds.split(",")
    after = begins_after(call, query.after)
    chosen_kinds(kinds), cursors_of(after)  # nonsense is refused before the stream begins
    feed = call.store.changes(kinds, after=after, wait=query.follow)
    changes = cast("AsyncGenerator[EntityChange, None]", feed)
    stream = events(changes, lambda change: change.cursor, lambda change: change)
    return Reply(200, headers={"content-type": EVENTS}, events=stream)


def _journal(call: RestCall) -> Journal:
    return call.store.journal(call.path["journal"], whose(call, call.query.user))


async def _publish(call: RestCall) -> Reply:
    body: EventsBody = call.body
    journal = _journal(call)
    key, expect = call.headers.get(KEY.lower()), expected(call)
    return await appended(journal.handle, journal.append(*body.events, key=key, expect=expect))


async def _journal_changes(call: RestCall) -> Reply:
    query: ChangesQuery = call.query
    journal = _journal(call)
    after = Cursor.of(begins_after(call, query.after) or 0)
    await journal.handle.fetch()  # another's is refused before the stream begins
    changes = journal.changes(after, follow=query.follow)
    stream = events(changes, lambda change: str(change.cursor), message_event)
    return Reply(200, headers={"content-type": EVENTS}, events=stream)


async def _delete_journal(call: RestCall) -> Reply:
    await _journal(call).delete()
    return Reply(204)


async def _storage(call: RestCall) -> Reply:
    return answer(await call.store.counts())


async def _namespaces(call: RestCall) -> Reply:
    stack, asker = call.store.sections["workflows"].stack, call.asker
    await stack.ready()
    if not isinstance(stack.engine, Namespaces):
        raise InvalidInput("the service's store does not say which namespaces it has")
    names = await stack.engine.namespaces()
    if asker.namespaces is not None:
        names = [name for name in names if name in asker.namespaces]
    return answer(NamespaceNames([name for name in names if name != OWN_NAMESPACE]))


async def _export(call: RestCall) -> Reply:
    offload = call.store.sections["users"].world.offload
    folder = await offload(mkdtemp, None, "stateward-export-")
    try:
        path = os.path.join(folder, "export.jsonl")
        await call.store.user(call.path["user"]).export(path)
        file = await offload(open, path, "rb")
    finally:
        await offload(rmtree, folder, True)  # an open file stays until it is closed
    return Reply(200, headers={"content-type": LINES}, events=_pieces(file, offload))


async def _pieces(file: Any, offload: Callable[..., Any]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := await offload(file.read, PIECE):
            yield piece


async def _erase(call: RestCall) -> Reply:
    return answer(await call.store.user(call.path["user"]).erase())


_J = "/v1/journals/{journal}"
STORE = (
    RestRoute(
        "GET",
        "/v1/context",
        "read",
        _context,
        "A window, the user's documents and unfinished work, read together",
        ContextShown,
        ContextQuery,
    ),
    RestRoute(
        "GET",
        "/v1/changes",
        "read",
        _changes,
        "What was touched, and what is touched from now on",
        EntityChange,
        FeedQuery,
        headers=(LAST_EVENT,),
        gives=EVENTS,
    ),
    RestRoute(
        "POST",
        f"{_J}/events",
        "write",
        _publish,
        "Publish events, all or none",
        AppendAnswer,
        Whom,
        EventsBody,
        201,
        (KEY, MATCH, NONE_MATCH),
    ),
    RestRoute(
        "GET",
        f"{_J}/changes",
        "read",
        _journal_changes,
        "Every event after a place, and those that come",
        MessageEvent,
        ChangesQuery,
        headers=(LAST_EVENT,),
        gives=EVENTS,
    ),
    RestRoute("DELETE", _J, "write", _delete_journal, "Remove a journal", None, Whom, status=204),
    RestRoute(
        "GET",
        "/v1/storage",
        "operate",
        _storage,
        "How much there is of each kind",
        dict[str, int],
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/namespaces",
        "operate",
        _namespaces,
        "Which namespaces there are that the key is for",
        NamespaceNames,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/users/{user}/export",
        "operate",
        _export,
        "All that belongs to a user, one JSON object a line",
        str,
        gives=LINES,
        one_users=False,
    ),
    RestRoute(
        "POST",
        "/v1/users/{user}/erase",
        "operate",
        _erase,
        "Remove all that belongs to a user, for good",
        ErasureReceipt,
        one_users=False,
    ),
)
