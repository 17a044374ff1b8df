"""The REST API of the one box: whatever has this id, this user, or this correlation id."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.kinds import (
    JOURNAL,
    KINDS,
    OPERATIONS,
    SCHEDULE,
    SHARED,
    TASK,
    THREAD,
    WORKFLOW,
)
from stateward.ops import Entity, Fetch, Fetched, Found, List, Listed, Log, Op
from stateward.records import LoggedOperation, ThreadInfo
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, RestRoute
from stateward.state.about import ABOUT
from stateward.state.operation_record import read_operation
from stateward.state.window_request import thread_info

SHOWN = 10  # of each kind
LOGGED = 1000  # newest entries of the operations log that are looked through
LOOKED_FOR = (THREAD, WORKFLOW, TASK, SHARED, JOURNAL, SCHEDULE)


class FindQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """An id or how it begins, a user, or a correlation id."""

    text: Annotated[str, Meta(min_length=1, max_length=512)]


class EntityFound(Struct, frozen=True):
    """Something whose id is that text, or begins with it."""

    kind: str
    id: str
    user: str | None


class FindAnswer(Struct, frozen=True):
    """What there is: ids that begin so, what that user has, and what was done by hand."""

    entities: list[EntityFound]
    user: str | None  # the text, if it is somebody who has anything here
    kinds: dict[str, int]  # how much they have
    threads: list[ThreadInfo]  # theirs, those first that were touched last
    operations: list[LoggedOperation]  # with that correlation id


async def _find(call: RestCall) -> Reply:
    """One round trip, however much there is."""
    text = check_id(call.query.text, "what is looked for")
    scope = call.store.sections["workflows"]
    namespace = scope.namespace
    ops: list[Op] = [
        List(namespace, owner=text, tally="kind"),
        List(namespace, THREAD, text, recent=True, documents=(ABOUT,), limit=SHOWN),
        Fetch(Entity(namespace, OPERATIONS, OPERATIONS), log=Log(last=LOGGED, details=True)),
    ]
    ops += [List(namespace, kind, prefix=text, limit=SHOWN) for kind in LOOKED_FOR]
    tally, theirs, log, *found = await scope.execute(ops)
    assert isinstance(tally, Listed)
    assert isinstance(theirs, Listed)
    kinds = {kind: count for kind, count in sorted(tally.tally.items()) if _is_state(kind)}
    return answer(
        FindAnswer(
            [_shown(each) for page in found if isinstance(page, Listed) for each in page.entities],
            text if kinds else None,
            kinds,
            [thread_info(each) for each in theirs.entities],
            _logged(log, text),
        )
    )


def _is_state(kind: str) -> bool:
    return kind not in KINDS or not KINDS[kind].internal


def _shown(found: Found) -> EntityFound:
    return EntityFound(found.entity.kind, found.entity.id, found.head.owner or None)


def _logged(log: object, correlation: str) -> list[LoggedOperation]:
    entries = []
    for entry in reversed(log.entries if isinstance(log, Fetched) else ()):
        try:
            said = read_operation(entry)
        except InvalidInput:
            continue  # `verify` tells of it
        if said.correlation == correlation:
            entries.append(said)
    return entries


FIND = (
    RestRoute(
        "GET",
        "/v1/find",
        "operate",
        _find,
        "What has this id, belongs to this user, or was done under this correlation id",
        FindAnswer,
        FindQuery,
        one_users=False,
    ),
)
