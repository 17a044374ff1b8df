"""Beginning a conversation with what another one holds, unless its user is erased meanwhile.

A fork reads one entity and writes another, and no commit spans two. So it says first what it is
about to write: an intent, which belongs to the user. Whoever erases the user finds either the
intent, and forbids the copy by dropping it beforehand, or nothing: then there was no origin left
to be read.
"""

from __future__ import annotations

from msgspec.structs import replace

from stateward.codec import encode, encode_messages
from stateward.context.window import Bounds
from stateward.errors import InvalidInput
from stateward.kinds import FORK, THREAD
from stateward.ops import Absent, Append, NotDroppedSince, Put, Write
from stateward.records import Cursor
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.window_request import WindowRequest
from stateward.state.windows import read_window

VARS = "vars"
FORKED_FROM = "forked_from"
RETAIN = 60.0  # seconds after which an intent expires; an erasure finds it also then


async def fork(handle: Handle, to: str, at: Cursor | None) -> str | None:
    """Make the thread `to`, owned by whom this one belongs to; that owner."""
    scope = handle.scope
    head = (await handle.fetch()).head
    if not head.exists:
        raise _missing(handle)
    owner = head.owner or handle.owner
    origin = replace(handle, owner=owner)
    copy = replace(origin, entity=scope.entity(THREAD, to))
    intent = Handle(scope, scope.entity(FORK, to), owner, RETAIN)
    named = encode({"thread": handle.entity.id}, "the origin")
    begun = stored(await intent.commit((Put(FORKED_FROM, named),)), copy.entity)
    writes = await _beginning(origin, at)
    unforbidden = (Absent(), NotDroppedSince(begun.at))
    stored(await copy.commit(writes, unforbidden), copy.entity)
    return owner


async def _beginning(origin: Handle, at: Cursor | None) -> tuple[Write, ...]:
    everything = WindowRequest(origin.entity, origin.owner, Bounds(), upto=at)
    window = await read_window(origin.scope, everything)
    if not window.exists:
        raise _missing(origin)
    version = window.version if at is None else at.version
    named = encode({"thread": origin.entity.id, "version": version}, "the origin")
    writes: list[Write] = [Put(FORKED_FROM, named)]
    variables = (await origin.fetch(documents=(VARS,))).documents.get(VARS)
    if variables is not None:
        writes.append(Put(VARS, variables.json))
    if window.messages:
        writes.append(Append(encode_messages(window.messages, origin.scope.limits)))
    return tuple(writes)


def _missing(origin: Handle) -> InvalidInput:
    return InvalidInput(f"the thread {origin.entity.id!r} does not exist; there is nothing to fork")
