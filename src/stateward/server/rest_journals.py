"""The REST API of journals."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.server.reply import Reply
from stateward.server.rest import Whom, expected, whose
from stateward.server.rest_threads import (
    AppendAnswer,
    ChangesQuery,
    MessageEvent,
    appended,
    streamed_changes,
)
from stateward.server.route import EVENTS, KEY, LAST_EVENT, MATCH, NONE_MATCH, RestCall, Routes
from stateward.state.journals import Journal


class EventsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Events for the end of a journal."""

    events: Annotated[list[dict[str, Any]], Meta(min_length=1)]


def _journal(call: RestCall) -> Journal:
    return call.store.journal(call.path["journal"], whose(call, call.query.user))


JOURNALS = Routes("journals")


@JOURNALS.route(
    "POST /v1/journals/{journal}/events",
    "write",
    AppendAnswer,
    Whom,
    EventsBody,
    status=201,
    headers=(KEY, MATCH, NONE_MATCH),
    one_users=False,
)
async def _publish(call: RestCall) -> Reply:
    """Publish events, all or none."""
    body: EventsBody = call.body
    journal = _journal(call)
    key, expect = call.headers.get(KEY.lower()), expected(call)
    return await appended(journal.handle, journal.append(*body.events, key=key, expect=expect))


@JOURNALS.logged("journal read", reads=True)
@JOURNALS.route(
    "GET /v1/journals/{journal}/changes",
    "read",
    MessageEvent,
    ChangesQuery,
    headers=(LAST_EVENT,),
    gives=EVENTS,
)
async def _journal_changes(call: RestCall) -> Reply:
    """Stream every event after a cursor, and new ones as they arrive."""
    return await streamed_changes(call, _journal(call))


@JOURNALS.logged("journal delete", makes_room=True)
@JOURNALS.route("DELETE /v1/journals/{journal}", "write", None, Whom, one_users=False)
async def _delete_journal(call: RestCall) -> Reply:
    """Remove a journal."""
    await _journal(call).delete()
    return Reply(204)
