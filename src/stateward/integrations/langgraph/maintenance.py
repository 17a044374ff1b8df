"""Thinning out threads, and the history of delta channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec.structs import replace

from stateward.codec import decode, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import CheckpointSegment, TemplateUse, copied
from stateward.integrations.langgraph.copies import settled
from stateward.integrations.langgraph.reads import (
    ListParts,
    documents_of,
    find,
    listed,
    pending_writes,
    read_values,
    records_in,
    segments_upto,
)
from stateward.integrations.langgraph.records import (
    NAMES,
    PAGE,
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
    on_segment,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.kinds import EFFECT, effects_of
from stateward.ops import Commit, CommitsAt, Conflict, Delete, Drop, Entity, List, Listed, Put
from stateward.ops import Write as AnyWrite
from stateward.state.effects import DROPPING
from stateward.state.refusals import stored
from stateward.world import World

TRIES = 20  # tries for a thread that others keep writing to
CHUNK = 1000  # writes in one commit

Keep = Callable[["Whole"], set[tuple[str, str]]]


# --- the whole of a thread ----------------------------------------------------------------


class Whole(NamedTuple):
    """The whole content of a thread, as of one moment."""

    commits: int
    records: dict[tuple[str, str], CheckpointRecord]
    heads: dict[str, CheckpointHead]
    names: frozenset[str]
    bases: dict[str, str | None]  # for each part of a list, the part before it
    parts: dict[str, tuple[tuple[str, str], str]]  # parts in segments: the checkpoint, and the text
    there: dict[str, set[str]]  # digests of templates, by namespace

    def ancestors(self, key: tuple[str, str]) -> Iterable[CheckpointRecord]:
        """Yield a checkpoint and its ancestors, each once even if the parents form a cycle."""
        passed: set[tuple[str, str]] = set()
        while key not in passed and (record := self.records.get(key)) is not None:
            yield record
            passed.add(key)
            key = (record.ns, record.parent or "")


def whole(thread: GraphThread, memory: CheckpointMemory) -> Plan[Whole | None]:
    """Read a thread; None if there is none."""
    head = (yield from settled(thread, memory.world)).head
    if not head.exists:
        return None
    memory.meet(thread, head)
    values = [thread.listing(prefix) for prefix in ("c/", "h/", "l/")]
    bare = [thread.listing(prefix, values=False, limit=NAMES) for prefix in ("r/", "v/", "w/")]
    documents = yield from documents_of(*values, *bare)
    records = yield from records_in(thread, documents[0], memory)
    spaces = {record.ns for record in records}
    heads = dict(documents[1])
    bases = {name: _base(name, decode(value.json)) for name, value in documents[2]}
    parts = {}
    for record in records:
        for channel, part in record.parts.items():
            name = names.lists(record.ns, channel) + names.part(record.id)
            bases[name] = _base(name, part)
            parts[name] = ((record.ns, record.id), encode(part, "the state"))
    records.sort(key=_was_put_again)
    return Whole(
        head.commits,
        {(record.ns, record.id): record for record in records},
        {
            ns: at
            for ns in spaces
            if (at := CheckpointHead.of(heads.get(names.head(ns)))) is not None
        },
        frozenset(name for listing in documents for name, _ in listing),
        bases,
        parts,
        memory.templates(thread).there,
    )


def _was_put_again(record: CheckpointRecord) -> bool:
    """Return whether a checkpoint was put again in a segment of its own, and so comes last."""
    return record.document == names.checkpoint(record.ns, record.id)


def _base(name: str, part: Any) -> str | None:
    base = part["base"]
    return None if base is None else f"{name.rpartition('/')[0]}/{names.part(base)}"


def newest_of(all_: Whole, serde: SerializerProtocol) -> set[tuple[str, str]]:
    """Return the newest checkpoint of every namespace, and those its delta channels need."""
    newest: set[tuple[str, str]] = set()
    for ns, head in all_.heads.items():
        missing: set[str] | None = None
        for record in all_.ancestors((ns, head.id)):
            newest.add((ns, record.id))
            if missing is None:
                metadata = from_json(copied(record.metadata), serde)
                missing = set(metadata.get("counters_since_delta_snapshot") or ())
            missing -= record.values.keys()
            if not missing:
                break
    return newest


def without_runs(
    all_: Whole, run_ids: Sequence[str], serde: SerializerProtocol
) -> set[tuple[str, str]]:
    """Return all checkpoints but those of these runs."""
    runs = set(run_ids)
    return {
        key
        for key, record in all_.records.items()
        if from_json(copied(record.metadata), serde).get("run_id") not in runs
    }


def thin_out(thread: GraphThread, keep: Keep, memory: CheckpointMemory) -> Plan[None]:
    """Remove all checkpoints but some, and the data that only the removed ones needed.

    A new checkpoint cannot lose shared data: each commit is refused if anything was written
    since the thread was read, and then the thread is read again.
    """
    for _ in range(TRIES):
        all_ = yield from whole(thread, memory)
        if all_ is None:
            return
        keys = keep(all_)
        writes = _removals(all_, keys)
        commits = all_.commits
        if not keys:
            writes = [Drop()]
        for start in range(0, len(writes), CHUNK):
            part = tuple(writes[start : start + CHUNK])
            (outcome,) = yield (
                Commit(
                    thread.entity,
                    memory.world.new_op(),
                    part,
                    (CommitsAt(commits),),
                    owner=thread.owner,
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


def _removals(all_: Whole, keys: set[tuple[str, str]]) -> list[AnyWrite]:
    """Return the removals, checkpoints first, so that a failure leaves only unreferenced data.

    Parts of lists that other checkpoints still need are stored before.
    """
    writes_of: dict[str, list[str]] = {}
    for name in all_.names:
        if name.startswith("w/"):
            writes_of.setdefault(f"{name.rsplit('/', 2)[0]}/", []).append(name)
    needed: set[str] = set()
    segments: dict[str, list[CheckpointRecord]] = {}
    for key, record in all_.records.items():
        if key in keys:
            segments.setdefault(record.document, []).append(record)
            needed.update(writes_of.get(names.writes(record.ns, record.id), ()))
            _need(record, all_, needed)
    writes: list[AnyWrite] = [
        Put(name, text)
        for name, (key, text) in all_.parts.items()
        if name in needed and key not in keys
    ]
    for ns, head in all_.heads.items():
        ids = [id for space, id in keys if space == ns]
        if ids and head.id not in ids:
            newest = all_.records[ns, max(ids)]
            newest_head = {"id": newest.id, "in": newest.document.rpartition("/")[2]}
            writes.append(Put(names.head(ns), encode(newest_head, "the head")))
    thinned = {record.document for key, record in all_.records.items() if key not in keys}
    for name in sorted(thinned & segments.keys()):
        there = all_.there[segments[name][0].ns]
        segment = CheckpointSegment(segments[name][0].ns, name.rpartition("/")[2])
        for record in sorted(segments[name], key=lambda each: names.part(each.id)):
            segment = on_segment(segment, record, _among(there))
        writes.append(Put(name, segment.text))
    doomed = sorted(all_.names - needed, key=lambda name: (name[0] not in "ch", name))
    return [*writes, *(Delete(name) for name in doomed)]


def _among(digests: set[str]) -> Callable[[TemplateUse], bool]:
    return lambda use: use.digest in digests


def _need(record: CheckpointRecord, all_: Whole, needed: set[str]) -> None:
    """Add the parts of a checkpoint to those that are needed."""
    needed |= {record.document, names.head(record.ns)}
    if isinstance(record.metadata, dict) and isinstance(record.metadata.get("run_id"), str):
        needed.add(names.run(record.metadata["run_id"]))
    for channel, value in record.values.items():
        if "in" in value:
            needed.add(names.value(record.ns, channel, value["in"]))
        elif "list" in value:
            part: str | None = names.lists(record.ns, channel) + names.part(value["list"][0])
            while part is not None and part not in needed:
                needed.add(part)
                part = all_.bases.get(part)


def threads_of_runs(
    namespace: str, run_ids: Sequence[str], after: str | None
) -> Plan[tuple[list[Entity], str | None]]:
    """Return a page of the threads in which any of these runs has stored something."""
    marks = tuple(names.run(id) for id in run_ids)
    (outcome,) = yield (List(namespace, kind=names.KIND, documents=marks, limit=PAGE, after=after),)
    page = listed(outcome)
    return [thread.entity for thread in page.entities if thread.documents], page.next


# --- delta channels -----------------------------------------------------------------------


def history(
    thread: GraphThread,
    id: str | None,
    channels: Sequence[str],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[dict[str, Any]]:
    """Return the ancestors' writes to these channels, from the last stored value on."""
    target = yield from find(thread, id, memory)
    chain = [] if target is None else (yield from _chain(thread, target, set(channels), memory))
    listings = [thread.listing(names.writes(thread.ns, record.id)) for record in chain]
    documents = yield from documents_of(*listings)
    histories: dict[str, Any] = {}
    for channel in channels:
        entry: dict[str, Any] = {"writes": []}
        for record, written in zip(chain, documents, strict=True):  # newest first
            all_ = pending_writes(record, written, serde)
            own = [write for write in all_ if write[1] == channel]
            entry["writes"][:0] = own
            if channel in record.values:
                values = yield from read_values(
                    thread, record, (channel,), {}, ListParts(chain), memory, serde
                )
                entry["seed"] = values[channel]
                break
        histories[channel] = entry
    return histories


def _chain(
    thread: GraphThread, target: CheckpointRecord, missing: set[str], memory: CheckpointMemory
) -> Plan[list[CheckpointRecord]]:
    """Return the ancestors, newest first, until each channel has a stored value."""
    read: dict[str, CheckpointRecord] = {}
    chain: list[CheckpointRecord] = []
    passed = {target.id}  # the parents may form a cycle
    parent = target.parent
    while parent is not None and parent not in passed and missing:
        passed.add(parent)
        if parent not in read:
            (page,) = yield (segments_upto(thread, names.segment(parent), PAGE),)
            records = yield from records_in(thread, listed(page).documents, memory)
            records.sort(key=_was_put_again)
            read = {each.id: each for each in records}
        record = read.get(parent) or (yield from find(thread, parent, memory))
        if record is None:
            break
        chain.append(record)
        missing = missing - record.values.keys()
        parent = record.parent
    return chain


def drop_effects(whose: Entity, world: World) -> Plan[None]:
    """Remove the effects of a deleted thread, except unknown ones, as `Thread.delete` does."""
    op = List(whose.namespace, EFFECT, prefix=effects_of(whose))
    while True:
        (page,) = yield (op,)
        assert isinstance(page, Listed)
        effects = [effect.entity for effect in page.entities]
        for write, check in DROPPING:
            commits = [Commit(each, world.new_op(), (write,), (check,)) for each in effects]
            left = zip(effects, (yield commits) if commits else (), strict=True)
            effects = [effect for effect, outcome in left if isinstance(outcome, Conflict)]
        if page.next is None:
            return
        op = replace(op, after=page.next)
