"""The REST API of the one box: whatever has this id, this user, or this correlation id."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.kinds import JOURNAL, KINDS, OPERATIONS, SCHEDULE, SHARED, TASK, THREAD, WORKFLOW
from stateward.ops import Entity, Fetch, Fetched, Found, List, Listed, Log, Op
from stateward.records import LoggedOperation, ThreadInfo
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, Routes
from stateward.state.about import ABOUT
from stateward.state.operation_record import read_operation
from stateward.state.scope import Scope
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
    user: str | None  # the text, if it is someone who has anything here
    kinds: dict[str, int]  # how much they have
    threads: list[ThreadInfo]  # theirs, those first that were touched last
    operations: list[LoggedOperation]  # with that correlation id


FIND = Routes("find")


@FIND.route("GET /v1/find", "operate", FindAnswer, FindQuery, one_users=False)
async def _find(call: RestCall) -> Reply:
    """Find by id, by user or by correlation id."""
    scope = call.store.sections["workflows"]
    return answer(await find_in(scope, call.query.text, users=True, log=True))


async def find_in(scope: Scope, text: str, *, users: bool, log: bool) -> FindAnswer:
    """One round trip, however much there is.

    With `users` also what a user of that id has, with `log` also what was done under that
    correlation id.
    """
    text, namespace = check_id(text, "what is looked for"), scope.namespace
    ops: list[Op] = [List(namespace, kind, prefix=text, limit=SHOWN) for kind in LOOKED_FOR]
    if users:
        ops += [
            List(namespace, owner=text, tally="kind"),
            List(namespace, THREAD, text, recent=True, documents=(ABOUT,), limit=SHOWN),
        ]
    if log:
        entries = Log(last=LOGGED, details=True)
        ops.append(Fetch(Entity(namespace, OPERATIONS, OPERATIONS), log=entries))
    outcomes = await scope.execute(ops)
    listings = [each for each in outcomes if isinstance(each, Listed)]
    tally, theirs = listings[len(LOOKED_FOR) :] if users else (Listed(), Listed())
    kinds = {kind: count for kind, count in sorted(tally.tally.items()) if _is_state(kind)}
    return FindAnswer(
        [_shown(each) for page in listings[: len(LOOKED_FOR)] for each in page.entities],
        text if kinds else None,
        kinds,
        [thread_info(each) for each in theirs.entities],
        _logged(outcomes[-1], text) if log else [],
    )


def _is_state(kind: str) -> bool:
    return kind not in KINDS or not KINDS[kind].internal


def _shown(found: Found) -> EntityFound:
    return EntityFound(found.entity.kind, found.entity.id, found.head.owner or None)


def _logged(log: object, correlation: str) -> list[LoggedOperation]:
    entries = []
    for entry in reversed(log.entries if isinstance(log, Fetched) else ()):
        try:
            record = read_operation(entry)
        except InvalidInput:
            continue  # `verify` tells of it
        if record.correlation == correlation:
            entries.append(record)
    return entries
