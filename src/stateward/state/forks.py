"""Beginning a conversation with what another one holds, unless its user is erased meanwhile.

A fork reads one entity and writes another, and no commit spans two. So it says first what it is
about to write: an intent, which belongs to the user. Whoever erases the user finds either the
intent, and forbids the copy by dropping it beforehand, or nothing: then there was no origin left
to be read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from stateward.codec import decode, encode, encode_messages
from stateward.context.window import Bounds
from stateward.errors import InvalidInput
from stateward.kinds import FORK, THREAD
from stateward.ops import (
    Absent,
    Append,
    CommitsAt,
    Conflict,
    Fetch,
    Fetched,
    Head,
    List,
    LogAt,
    NotDroppedSince,
    Put,
    Value,
    Write,
)
from stateward.records import Branch, Cursor, Origin, moment
from stateward.state.about import VARS
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.shared_message import FORKED_FROM, number_spans
from stateward.state.window_request import WindowRequest
from stateward.state.windows import read_window

BRANCH = "branch "  # begins the names of an origin's notes, which say what was to be forked from it
RETAIN = 60.0  # seconds after which an intent expires; an erasure finds it also then


async def fork(handle: Handle, to: str, at: Cursor | None) -> str | None:
    """Make the thread `to`, owned by whom this one belongs to; that owner."""
    scope, entity = handle.scope, handle.scope.entity(THREAD, to)
    head = await _noted(handle, to)
    owner = head.owner or handle.owner
    origin = replace(handle, owner=owner)
    copy = replace(origin, entity=entity)
    intent = Handle(scope, scope.entity(FORK, to), owner, RETAIN)
    named = encode({"thread": handle.entity.id}, "the origin")
    begun = stored(await intent.commit((Put(FORKED_FROM, named),)), copy.entity)
    writes = await _beginning(origin, at)
    unforbidden = (Absent(), NotDroppedSince(begun.at))
    stored(await copy.commit(writes, unforbidden), copy.entity)
    return owner


async def _noted(handle: Handle, to: str) -> Head:
    """The origin's head, with a note beside it that there may be such a branch from here on."""
    while True:
        head = (await handle.fetch()).head
        if not head.exists:
            raise _missing(handle)
        as_seen = (CommitsAt(head.commits), LogAt(head.version, head.stamp or None))
        outcome = await handle.commit((Put(BRANCH + to, "{}"),), as_seen)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            return head


async def origin_of(handle: Handle) -> Origin | None:
    """Where a thread was forked from."""
    return _origin((await handle.fetch(documents=(FORKED_FROM,))).documents.get(FORKED_FROM))


def _origin(value: Value | None) -> Origin | None:
    if value is None:
        return None
    named = decode(value.json)
    return Origin(named["thread"], named["version"])


async def list_branches(handle: Handle) -> AsyncIterator[Branch]:
    """What was forked from a thread and exists, by id; of those the caller has a right to."""
    scope, entity = handle.scope, handle.entity
    await handle.fetch()  # another's raises
    notes = List(entity.namespace, owner=handle.owner, within=entity, prefix=BRANCH, values=False)
    async for page in scope.pages(notes):
        ids = [name.removeprefix(BRANCH) for name, _ in page.documents]
        forks = [Fetch(entity._replace(id=id), handle.owner, None, (FORKED_FROM,)) for id in ids]
        for id, fork in zip(ids, await scope.execute(forks) if forks else (), strict=True):
            if not isinstance(fork, Fetched):
                continue
            head, origin = fork.head, _origin(fork.documents.get(FORKED_FROM))
            if origin is not None and origin.thread == entity.id:
                times = (moment(head.created), moment(head.updated))
                yield Branch(id, head.owner or None, origin.version, head.live, *times)


async def _beginning(origin: Handle, at: Cursor | None) -> tuple[Write, ...]:
    everything = WindowRequest(origin.entity, origin.owner, Bounds(), upto=at, entries=True)
    window = await read_window(origin.scope, everything)
    if not window.exists:
        raise _missing(origin)
    version = window.version if at is None else at.version
    named = {"thread": origin.entity.id, "version": version}
    if window.entries:
        named["numbers"] = number_spans(entry.version for entry in window.entries)
        named["stamp"] = window.entries[-1].cursor.stamp
    writes: list[Write] = [Put(FORKED_FROM, encode(named, "the origin"))]
    variables = (await origin.fetch(documents=(VARS,))).documents.get(VARS)
    if variables is not None:
        writes.append(Put(VARS, variables.json))
    if window.messages:
        writes.append(Append(encode_messages(window.messages, origin.scope.limits)))
    return tuple(writes)


def _missing(origin: Handle) -> InvalidInput:
    return InvalidInput(f"the thread {origin.entity.id!r} does not exist; there is nothing to fork")
