"""The REST API of journals."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.kinds import JOURNAL
from stateward.records import Cursor
from stateward.server.reply import Reply
from stateward.server.rest import Whom, events, expected, whose
from stateward.server.rest_threads import (
    AppendAnswer,
    ChangesQuery,
    MessageEvent,
    appended,
    begins_after,
    message_event,
)
from stateward.server.route import (
    EVENTS,
    KEY,
    LAST_EVENT,
    MATCH,
    NONE_MATCH,
    RestCall,
    RestRoute,
    RouteDeed,
)
from stateward.state.journals import Journal


class EventsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Events for the end of a journal."""

    events: Annotated[list[dict[str, Any]], Meta(min_length=1)]


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
    return Reply(200, headers={"content-type": EVENTS}, events=stream, follows=query.follow)


async def _delete_journal(call: RestCall) -> Reply:
    await _journal(call).delete()
    return Reply(204)


_J = "/v1/journals/{journal}"
JOURNALS = (
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
        "Stream every event after a cursor, and new ones as they arrive",
        MessageEvent,
        ChangesQuery,
        headers=(LAST_EVENT,),
        gives=EVENTS,
    ),
    RestRoute(
        "DELETE",
        _J,
        "write",
        _delete_journal,
        "Remove a journal",
        None,
        Whom,
        status=204,
        deed=RouteDeed("journal delete", JOURNAL, "journal", makes_room=True),
    ),
)
