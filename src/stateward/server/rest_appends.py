"""Routes of agents: appending to conversations and journals. No one does that by hand."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stateward.errors import StateConflictError
from stateward.kinds import THREAD
from stateward.records import Appended
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Whom, answer, etag, expected, whose
from stateward.server.route import KEY, MATCH, NONE_MATCH, RestCall, Routes
from stateward.state.handle import Handle


class AppendBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for the end of a conversation, and a merge patch for its variables."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    vars: dict[str, Any] | None = None


class EventsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Events for the end of a journal."""

    events: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class AppendAnswer(Struct, frozen=True):
    """What became of an append: `stored`, or a `duplicate` of one with the same key."""

    status: Literal["stored", "duplicate"]
    version: int
    cursor: str


APPENDS = Routes("threads")


@APPENDS.route(
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
    thread = call.store.thread(call.path["thread"], whose(call, call.query.user))
    key, expect = call.headers.get(KEY.lower()), expected(call)
    appending = thread.append(*body.messages, key=key, expect=expect, vars=body.vars)
    return await _appended(thread.handle, appending)


@APPENDS.route(
    "POST /v1/journals/{journal}/events",
    "write",
    AppendAnswer,
    Whom,
    EventsBody,
    status=201,
    headers=(KEY, MATCH, NONE_MATCH),
    one_users=False,
    right="journals.write",
)
async def _publish(call: RestCall) -> Reply:
    """Publish events, all or none."""
    body: EventsBody = call.body
    journal = call.store.journal(call.path["journal"], whose(call, call.query.user))
    key, expect = call.headers.get(KEY.lower()), expected(call)
    return await _appended(journal.handle, journal.append(*body.events, key=key, expect=expect))


async def _appended(handle: Handle, appending: Coroutine[Any, Any, Appended]) -> Reply:
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
