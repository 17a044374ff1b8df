"""The REST API of locks and leaders: who holds a lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import Struct

from stateward.actions.page import Page
from stateward.codec import encode
from stateward.kinds import LEADER, LOCK
from stateward.ops import Found, List, Listed
from stateward.records import moment
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Limit, missing, page
from stateward.server.route import RestCall, Routes
from stateward.state.handle import Handle
from stateward.state.locks import break_lease


class LocksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Locks, or with `leaders` who leads a name."""

    leaders: bool = False
    limit: Limit = 100
    after: str | None = None


class BreakBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The token of the lease that was seen, and whether it is that of a leader."""

    token: int
    leader: bool = False


class LockShown(Struct, frozen=True):
    """Who holds a lock, or leads a name."""

    name: str
    holder: str | None
    token: int | None
    granted_at: datetime | None
    until: datetime | None


LOCKS = Routes()


@LOCKS.route("GET /v1/locks", "read", Page[LockShown], LocksQuery, one_users=False)
async def _locks(call: RestCall) -> Reply:
    """List locks and leaders with their holders."""
    query: LocksQuery = call.query
    return await page(
        call, query.limit, _held(call, query), lambda found: found.entity.id, _lock_shown
    )


async def _held(call: RestCall, query: LocksQuery) -> AsyncIterator[Found]:
    scope = call.store.sections["workflows"]
    kind = LEADER if query.leaders else LOCK
    after = None if query.after is None else encode([0.0, kind, query.after], "a cursor")
    op = List(scope.namespace, kind, limit=query.limit, after=after)
    listed = (await scope.execute((op,)))[0]
    assert isinstance(listed, Listed)
    for found in listed.entities:
        yield found


def _lock_shown(found: Found) -> LockShown:
    lease, name = found.head.lease, found.entity.id
    if lease is None:
        return LockShown(name, None, None, None, None)
    return LockShown(name, lease.holder, lease.token, moment(lease.granted), moment(lease.until))


def _kind(call: RestCall) -> str:
    return LEADER if call.body.leader else LOCK


@LOCKS.logged("lock break", "token", kind=_kind)
@LOCKS.route("POST /v1/locks/{lock}/break", "operate", None, body=BreakBody, one_users=False)
async def _break(call: RestCall) -> Reply:
    """Break a lock that is held with this token."""
    body: BreakBody = call.body
    scope = call.store.sections["workflows"]
    handle = Handle(scope, scope.entity(_kind(call), call.path["lock"]))
    head = await break_lease(handle, body.token)
    if head is None:
        return Reply(204)
    if not head.exists:
        raise missing("lock", call.path["lock"])
    raise Refusal(409, "that lease was released or taken over: check again")
