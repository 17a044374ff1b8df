"""Actions on locks and leaders: who holds a lease, and how to take one from its holder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, Cli, Missing, Overtaken, Rest
from stateward.actions.arguments import After, Arguments, Id, Limit
from stateward.bounds import Number
from stateward.codec import MOST, encode
from stateward.kinds import LEADER, LOCK
from stateward.ops import Found, List, Listed
from stateward.records import moment
from stateward.state.handle import Handle
from stateward.state.locks import break_lease


class ListLocks(Arguments, frozen=True):
    """Locks, or with `leaders` who leads a name."""

    leaders: bool = False
    limit: Limit = 100
    after: After = None


class LockShown(Struct, frozen=True):
    """Who holds a lock, or leads a name."""

    name: str
    holder: str | None
    token: int | None
    granted_at: datetime | None
    until: datetime | None


class BreakLock(Arguments, frozen=True, kw_only=True):
    """The token of the lease that was seen, and whether it is that of a leader."""

    lock: Id
    token: Annotated[int, Number(0, MOST)]
    leader: bool = False


def _kind(call: ActionCall) -> str:
    return LEADER if call.arguments.leader else LOCK


def _handle(call: ActionCall) -> Handle:
    scope = call.store.sections["workflows"]
    return Handle(scope, scope.entity(_kind(call), call.arguments.lock))


async def _lease(call: ActionCall) -> LockShown | None:
    handle = _handle(call)
    head = (await handle.fetch()).head
    return _shown(Found(handle.entity, head)) if head.exists else None


def _shown(lock: Found) -> LockShown:
    lease, name = lock.head.lease, lock.entity.id
    if lease is None:
        return LockShown(name, None, None, None, None)
    return LockShown(name, lease.holder, lease.token, moment(lease.granted), moment(lease.until))


LOCKS = Actions(LOCK, _lease, before=())


@LOCKS.list(ListLocks, LockShown, lambda lock: lock.name, rest=Rest("GET /v1/locks"))
async def _list(call: ActionCall) -> AsyncIterator[LockShown]:
    """List locks and leaders with their holders."""
    asked: ListLocks = call.arguments
    scope = call.store.sections["workflows"]
    kind = LEADER if asked.leaders else LOCK
    after = None if asked.after is None else encode([0.0, kind, asked.after], "a cursor")
    (listed,) = await scope.execute((List(scope.namespace, kind, limit=asked.limit, after=after),))
    assert isinstance(listed, Listed)
    return _each(listed)


async def _each(listed: Listed) -> AsyncIterator[LockShown]:
    for lock in listed.entities:
        yield _shown(lock)


@LOCKS.change(
    "break",
    BreakLock,
    None,
    kind=_kind,
    logs=("token",),
    rest=Rest("POST /v1/locks/{lock}/break", "BreakBody"),
    cli=Cli(
        """\
For a holder that hangs but keeps renewing its lease; the lease of a dead holder expires without
this. The holder finds out at its next renewal: its block is cancelled. The next holder gets a
greater token, so what the old holder still writes with its lease as a fence is refused. Check first
whether the holder is still working: what it does without a fence is not stopped. Leases of threads,
workflows and tasks end with the process that holds them: stop that process.

examples:
  stateward lock break sqlite:///agents.db inventory --dry-run
  stateward lock break sqlite:///agents.db scheduler --leader --yes"""
    ),
)
async def _break(call: ActionCall) -> None:
    """Break a lock that is held with this token."""
    what, name = _kind(call), call.arguments.lock
    head = await break_lease(_handle(call), call.arguments.token)
    if head is None:
        return
    if not head.exists:
        raise Missing(what, name)
    now = "it is free" if head.lease is None else f"{head.lease.holder} holds it"
    raise Overtaken(f"the {what} {name!r} has been released since, and now {now}: check again")
