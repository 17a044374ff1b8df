"""Copying a thread. The next reader of an unfinished copy finishes the copy."""

from __future__ import annotations

from stateward.codec import decode, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.records import GraphThread
from stateward.ops import (
    Absent,
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Entity,
    Fetch,
    Fetched,
    Listed,
    Put,
    Value,
)
from stateward.state.refusals import refuse, stored
from stateward.world import World

CHUNK = 1000  # writes in one commit
ORDER = "tlrvwch"  # checkpoints are stored after all their parts


def copy(thread: GraphThread, target: Entity, world: World) -> Plan[None]:
    """Copy a whole thread into a new one of the same user.

    If the original is dropped meanwhile, e.g. because its user is erased, the copy is removed.
    Until a copy is complete, a note in it names the original. No existing thread is copied over:
    two conversations would be mixed, and undoing the copy would remove both.
    """
    head = (yield from settled(thread, world)).head
    if not head.exists:
        return
    note = encode({"of": thread.entity.id, "dropped": head.dropped}, "the note")
    put = (Put(names.COPY, note),)
    (outcome,) = yield (
        Commit(target, world.new_op(), put, (Absent(),), head.owner, head.retain, (names.COPY,)),
    )
    if isinstance(outcome, Conflict):
        begun = outcome.values.get(names.COPY)
        if begun is None or begun.json != note:
            raise StateConflictError(
                f"the thread {target.id!r} exists: nothing was copied into it; copy the thread "
                f"{thread.entity.id!r} into one with a new id, or delete {target.id!r} first"
            )
        version = begun.version  # the same copy, begun by a process that may have died
    else:
        version = stored(outcome, target).documents[names.COPY]
    if not (yield from _complete(thread, target, head.dropped, version, world)):
        raise StateConflictError(
            f"the thread {thread.entity.id!r} was deleted while it was copied; there is no copy"
        )


def settled(thread: GraphThread, world: World) -> Plan[Fetched]:
    """Return the head of a thread; an unfinished copy is finished first."""
    while True:
        (outcome,) = yield (thread.fetch(names.COPY),)
        if not isinstance(outcome, Fetched):
            refuse(outcome, thread.entity)
        note = outcome.documents.get(names.COPY)
        if note is None:
            return outcome
        yield from finish(thread.entity, note, world)


def finish(target: Entity, note: Value, world: World) -> Plan[None]:
    """Finish a copy that another process may have left incomplete."""
    origin = decode(note.json)
    source = GraphThread(Entity(target.namespace, target.kind, origin["of"]), "", None)
    yield from _complete(source, target, origin["dropped"], note.version, world)


def _complete(
    source: GraphThread, target: Entity, dropped: float, version: int, world: World
) -> Plan[bool]:
    """Copy everything; False if the original is gone and the copy was removed.

    Every commit requires the note as it was read, so that later writes to a copy that another
    process has finished are never overwritten.
    """
    noted = DocumentAt(names.COPY, version)
    puts = []
    after: str | None = None
    while True:
        (page,) = yield (source.listing("", after=after),)
        assert isinstance(page, Listed)
        puts += [Put(name, value.json) for name, value in page.documents if name != names.COPY]
        after = page.next
        if after is None:
            break
    puts.sort(key=lambda put: (ORDER.index(put.name[0]), put.name))
    for start in range(0, len(puts), CHUNK):
        part = tuple(puts[start : start + CHUNK])
        (outcome,) = yield (Commit(target, world.new_op(), part, (noted,)),)
        if isinstance(outcome, Conflict):
            return True
        stored(outcome, target)
    (outcome,) = yield (Fetch(source.entity),)
    assert isinstance(outcome, Fetched)
    there = outcome.head.exists and outcome.head.dropped <= dropped
    last = Delete(names.COPY) if there else Drop()
    (outcome,) = yield (Commit(target, world.new_op(), (last,), (noted,)),)
    if not isinstance(outcome, Conflict):
        stored(outcome, target)
    return there
