"""Thinning out threads, and what a delta channel was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from stateward.codec import decode, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.copies import settled
from stateward.integrations.langgraph.reads import (
    decode_copy,
    documents_of,
    find,
    listed,
    pending_writes,
    read_values,
)
from stateward.integrations.langgraph.records import (
    NAMES,
    PAGE,
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import Commit, CommitsAt, Conflict, Delete, Drop, Entity, List, Put, Value
from stateward.ops import Write as AnyWrite
from stateward.state.refusals import stored
from stateward.world import World

TRIES = 20  # a thread that somebody writes to again and again is not thinned out
CHUNK = 1000  # writes of one commit

Keep = Callable[["Whole"], set[tuple[str, str]]]


# --- the whole of a thread ----------------------------------------------------------------


class Whole(NamedTuple):
    """All that a thread consists of, as of one moment."""

    commits: int
    records: dict[tuple[str, str], CheckpointRecord]
    heads: dict[str, CheckpointHead]
    names: frozenset[str]
    bases: dict[str, str | None]  # of the parts of lists, by name

    def ancestors(self, key: tuple[str, str]) -> Iterable[CheckpointRecord]:
        """A checkpoint and those before it, each once: somebody may have put a circle."""
        seen: set[tuple[str, str]] = set()
        while key not in seen and (record := self.records.get(key)) is not None:
            yield record
            seen.add(key)
            key = (record.ns, record.parent or "")


def whole(thread: GraphThread, world: World) -> Plan[Whole | None]:
    """Read a thread; None if there is none."""
    head = (yield from settled(thread, world)).head
    if not head.exists:
        return None
    values = [thread.listing(prefix) for prefix in ("c/", "h/", "l/")]
    bare = [thread.listing(prefix, values=False, limit=NAMES) for prefix in ("r/", "v/", "w/")]
    found = yield from documents_of(*values, *bare)
    records = [CheckpointRecord.of(value) for _, value in found[0]]
    spaces = {record.ns for record in records}
    heads = dict(found[1])
    return Whole(
        head.commits,
        {(record.ns, record.id): record for record in records},
        {
            ns: at
            for ns in spaces
            if (at := CheckpointHead.of(heads.get(names.head(ns)))) is not None
        },
        frozenset(name for documents in found for name, _ in documents),
        {name: _base(name, value) for name, value in found[2]},
    )


def _base(name: str, value: Value) -> str | None:
    base = decode(value.json)["base"]
    return None if base is None else f"{name.rpartition('/')[0]}/{names.part(base)}"


def newest_of(all_: Whole, serde: SerializerProtocol) -> set[tuple[str, str]]:
    """The newest checkpoint of every namespace, and what its delta channels are made of."""
    kept: set[tuple[str, str]] = set()
    for ns, head in all_.heads.items():
        missing: set[str] | None = None
        for record in all_.ancestors((ns, head.id)):
            kept.add((ns, record.id))
            if missing is None:
                metadata = from_json(decode_copy(record.metadata), serde)
                missing = set(metadata.get("counters_since_delta_snapshot") or ())
            missing -= record.values.keys()
            if not missing:
                break
    return kept


def without_runs(
    all_: Whole, run_ids: Sequence[str], serde: SerializerProtocol
) -> set[tuple[str, str]]:
    """All but the checkpoints of these runs."""
    runs = set(run_ids)
    return {
        key
        for key, record in all_.records.items()
        if from_json(decode_copy(record.metadata), serde).get("run_id") not in runs
    }


def thin_out(thread: GraphThread, keep: Keep, world: World) -> Plan[None]:
    """Remove all checkpoints but some, and what only the others needed.

    Nothing that was put meanwhile can lose what it shares: each commit is refused if anything
    was written since the thread was read, and then it is read again.
    """
    for _ in range(TRIES):
        all_ = yield from whole(thread, world)
        if all_ is None:
            return
        kept = keep(all_)
        writes = _removals(all_, kept)
        commits = all_.commits
        if not kept:
            writes = [Drop()]
        for start in range(0, len(writes), CHUNK):
            part = tuple(writes[start : start + CHUNK])
            (outcome,) = yield (
                Commit(
                    thread.entity, world.new_op(), part, (CommitsAt(commits),), owner=thread.owner
                ),
            )
            if isinstance(outcome, Conflict):
                break
            stored(outcome, thread.entity)
            commits += 1
        else:
            return
    raise StateConflictError(
        f"the thread {thread.entity.id!r} is written to all the time; stop its runs and try again"
    )


def _removals(all_: Whole, kept: set[tuple[str, str]]) -> list[AnyWrite]:
    """Checkpoints first: what is left after a failure is read by nobody and removed next time."""
    writes_of: dict[str, list[str]] = {}
    for name in all_.names:
        if name.startswith("w/"):
            writes_of.setdefault(f"{name.rsplit('/', 2)[0]}/", []).append(name)
    needed: set[str] = set()
    for key in kept:
        record = all_.records[key]
        needed.update(writes_of.get(names.writes(record.ns, record.id), ()))
        _need(record, all_, needed)
    doomed = sorted(all_.names - needed, key=lambda name: (name[0] not in "ch", name))
    writes: list[AnyWrite] = []
    for ns, head in all_.heads.items():
        ids = [id for space, id in kept if space == ns]
        if ids and head.id not in ids:
            writes.append(Put(names.head(ns), encode({"id": max(ids)}, "the head")))
    return [*writes, *(Delete(name) for name in doomed)]


def _need(record: CheckpointRecord, all_: Whole, found: set[str]) -> None:
    """Add what a checkpoint consists of."""
    found |= {names.checkpoint(record.ns, record.id), names.head(record.ns)}
    if isinstance(record.metadata, dict) and isinstance(record.metadata.get("run_id"), str):
        found.add(names.run(record.metadata["run_id"]))
    for channel, value in record.values.items():
        if "in" in value:
            found.add(names.value(record.ns, channel, value["in"]))
        elif "list" in value:
            part: str | None = names.lists(record.ns, channel) + names.part(value["list"][0])
            while part is not None and part not in found:
                found.add(part)
                part = all_.bases.get(part)


def threads_of_runs(
    namespace: str, run_ids: Sequence[str], after: str | None
) -> Plan[tuple[list[Entity], str | None]]:
    """A page of the threads in which any of these runs has put something."""
    marks = tuple(names.run(id) for id in run_ids)
    (outcome,) = yield (List(namespace, kind=names.KIND, documents=marks, limit=PAGE, after=after),)
    page = listed(outcome)
    return [found.entity for found in page.entities if found.documents], page.next


# --- delta channels -----------------------------------------------------------------------


def history(
    thread: GraphThread,
    id: str | None,
    channels: Sequence[str],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[dict[str, Any]]:
    """What the ancestors of a checkpoint wrote to these channels, from the last stored value on."""
    target = yield from find(thread, id, memory)
    chain = [] if target is None else (yield from _chain(thread, target, set(channels)))
    listings = [thread.listing(names.writes(thread.ns, record.id)) for record in chain]
    documents = yield from documents_of(*listings)
    found: dict[str, Any] = {}
    for channel in channels:
        entry: dict[str, Any] = {"writes": []}
        for record, written in zip(chain, documents, strict=True):  # newest first
            own = [write for write in pending_writes(written, serde) if write[1] == channel]
            entry["writes"][:0] = own
            if channel in record.values:
                values = yield from read_values(thread, record, (channel,), {}, memory, serde)
                entry["seed"] = values[channel]
                break
        found[channel] = entry
    return found


def _chain(
    thread: GraphThread, target: CheckpointRecord, missing: set[str]
) -> Plan[list[CheckpointRecord]]:
    """The ancestors, newest first, until each channel has a stored value."""
    read: dict[str, Value] = {}
    chain: list[CheckpointRecord] = []
    seen = {target.id}  # somebody may have put a circle
    parent = target.parent
    while parent is not None and parent not in seen and missing:
        seen.add(parent)
        name = thread.checkpoint(parent)
        if name not in read:
            before = thread.listing(
                names.checkpoints(thread.ns), reverse=True, after=f"{name}!", limit=PAGE
            )
            (page,) = yield (before,)
            read = dict(listed(page).documents)
        if name not in read:
            break
        record = CheckpointRecord.of(read[name])
        chain.append(record)
        missing = missing - record.values.keys()
        parent = record.parent
    return chain
