"""Forks: a conversation begun as a copy of another, unless its user is erased meanwhile.

A fork reads one entity and writes another, and no commit spans two. So it first writes an intent,
which belongs to the user. An erasure of the user that finds the intent drops the copy's entity, and
so forbids the copy; one that comes before the intent leaves no origin to read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from msgspec.structs import replace

from stateward.codec import decode, encode, encode_messages
from stateward.context.window import Bounds
from stateward.errors import InvalidInput, NotYoursError, StoreUnavailable
from stateward.kinds import FORK, THREAD
from stateward.ops import (
    Absent,
    Append,
    Check,
    CommitsAt,
    Delete,
    Drop,
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
from stateward.state.conversation_life import Life
from stateward.state.handle import Handle
from stateward.state.refusals import applied_in_part, deleted, stored
from stateward.state.shared_message import FORKED_FROM, number_spans
from stateward.state.stored_document import document_at
from stateward.state.window_request import WindowRequest
from stateward.state.windows import read_window

BRANCH = "branch "  # prefix of the documents in which an origin notes its forks
RETAIN = 60.0  # seconds after which an intent expires; an erasure also finds expired ones


async def fork(handle: Handle, to: str, at: Cursor | None) -> str | None:
    """Create the thread `to` for the owner of this one; return the owner."""
    entity = handle.scope.entity(THREAD, to)  # checks the id before anything is noted
    while True:
        before = await _noted(handle, to)
        origin = replace(handle, owner=before.owner or handle.owner)
        copy = replace(origin, entity=entity)
        permitted = await declare_fork(origin, to)
        begun = stored(await copy.commit(await _beginning(origin, at), permitted), entity)
        with applied_in_part():
            now = (await origin.fetch()).head
            life = Life.of(before, 0.0)
            if not life.is_over(now) and now.label == before.label:
                return origin.owner
            # What was removed from the origin while it was read must not live on in the copy.
            await copy.commit((Drop(),), (LogAt(begun.version, begun.stamp or None),))
        if life.is_over(now):
            raise deleted(handle.entity)


async def forget_branch(fork: Handle, forked_from: Value, at: float) -> None:
    """Remove the origin's note of a fork that was deleted at this time, unless it is a newer one's.

    If that fails, the note stays: a listing leaves it out, because the fork does not exist.
    """
    origin = fork.entity._replace(id=decode(forked_from.json)["thread"])
    handle = replace(fork, entity=origin)
    name = BRANCH + fork.entity.id
    with suppress(NotYoursError, StoreUnavailable):
        note = (await handle.fetch(documents=(name,))).documents.get(name)
        if note is not None and note.updated <= at:
            await handle.commit((Delete(name),), (document_at(name, note),))


async def declare_fork(origin: Handle, to: str) -> tuple[Check, ...]:
    """Store the intent to fork; return the checks under which the copy may be written."""
    intent = Handle(origin.scope, origin.scope.entity(FORK, to), origin.owner, RETAIN)
    named = encode({origin.entity.kind: origin.entity.id}, "the origin")
    copy = origin.entity._replace(id=to)
    declared = stored(await intent.commit((Put(FORKED_FROM, named),)), copy)
    return Absent(), NotDroppedSince(declared.at)


async def _noted(handle: Handle, to: str) -> Head:
    """Note in the origin that a fork of this name may exist from now on; return its head."""
    while True:
        head = (await handle.fetch()).head
        if not head.exists:
            raise InvalidInput(
                f"the thread {handle.entity.id!r} does not exist; there is nothing to fork"
            )
        as_seen = (CommitsAt(head.commits), LogAt(head.version, head.stamp or None))
        if await handle.commit_if(as_seen, Put(BRANCH + to, "{}")):
            return head


async def origin_of(handle: Handle) -> Origin | None:
    """Return where a thread was forked from."""
    return _origin((await handle.fetch(documents=(FORKED_FROM,))).documents.get(FORKED_FROM))


def _origin(value: Value | None) -> Origin | None:
    if value is None:
        return None
    named = decode(value.json)
    return Origin(named["thread"], named["version"])


async def list_branches(handle: Handle) -> AsyncIterator[Branch]:
    """Yield the existing forks of a thread by id, as far as the caller may read them."""
    scope, entity = handle.scope, handle.entity
    await handle.fetch()  # raises for a thread of another user
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
        raise deleted(origin.entity)  # since it was noted
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
