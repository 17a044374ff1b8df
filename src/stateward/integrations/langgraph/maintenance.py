"""Thinning out threads, and what a delta channel was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

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
from stateward.ops import Commit, CommitsAt, Conflict, Delete, Drop, Entity, List, Put
from stateward.ops import Write as AnyWrite
from stateward.state.refusals import stored

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
    bases: dict[str, str | None]  # of the parts of lists, by the names that they have by themselves
    parts: dict[str, tuple[tuple[str, str], str]]  # in segments: of which checkpoint, and as text
    there: dict[str, set[str]]  # the digests of templates, by namespace

    def ancestors(self, key: tuple[str, str]) -> Iterable[CheckpointRecord]:
        """A checkpoint and those before it, each once: somebody may have put a circle."""
        seen: set[tuple[str, str]] = set()
        while key not in seen and (record := self.records.get(key)) is not None:
            yield record
            seen.add(key)
            key = (record.ns, record.parent or "")


def whole(thread: GraphThread, memory: CheckpointMemory) -> Plan[Whole | None]:
    """Read a thread; None if there is none."""
    head = (yield from settled(thread, memory.world)).head
    if not head.exists:
        return None
    memory.meet(thread, head)
    values = [thread.listing(prefix) for prefix in ("c/", "h/", "l/")]
    bare = [thread.listing(prefix, values=False, limit=NAMES) for prefix in ("r/", "v/", "w/")]
    found = yield from documents_of(*values, *bare)
    records = yield from records_in(thread, found[0], memory)
    spaces = {record.ns for record in records}
    heads = dict(found[1])
    bases = {name: _base(name, decode(value.json)) for name, value in found[2]}
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
        frozenset(name for documents in found for name, _ in documents),
        bases,
        parts,
        memory.templates(thread).there,
    )


def _was_put_again(record: CheckpointRecord) -> bool:
    """Of two with the same id the one in a segment of its own was: it counts, so it comes last."""
    return record.document == names.checkpoint(record.ns, record.id)


def _base(name: str, part: Any) -> str | None:
    base = part["base"]
    return None if base is None else f"{name.rpartition('/')[0]}/{names.part(base)}"


def newest_of(all_: Whole, serde: SerializerProtocol) -> set[tuple[str, str]]:
    """The newest checkpoint of every namespace, and what its delta channels are made of."""
    kept: set[tuple[str, str]] = set()
    for ns, head in all_.heads.items():
        missing: set[str] | None = None
        for record in all_.ancestors((ns, head.id)):
            kept.add((ns, record.id))
            if missing is None:
                metadata = from_json(copied(record.metadata), serde)
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
        if from_json(copied(record.metadata), serde).get("run_id") not in runs
    }


def thin_out(thread: GraphThread, keep: Keep, memory: CheckpointMemory) -> Plan[None]:
    """Remove all checkpoints but some, and what only the others needed.

    Nothing that was put meanwhile can lose what it shares: each commit is refused if anything
    was written since the thread was read, and then it is read again.
    """
    for _ in range(TRIES):
        all_ = yield from whole(thread, memory)
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


def _removals(all_: Whole, kept: set[tuple[str, str]]) -> list[AnyWrite]:
    """Checkpoints first: what is left after a failure is read by nobody and removed next time.

    Before them come parts of lists that others still need.
    """
    writes_of: dict[str, list[str]] = {}
    for name in all_.names:
        if name.startswith("w/"):
            writes_of.setdefault(f"{name.rsplit('/', 2)[0]}/", []).append(name)
    needed: set[str] = set()
    segments: dict[str, list[CheckpointRecord]] = {}
    for key, record in all_.records.items():
        if key in kept:
            segments.setdefault(record.document, []).append(record)
            needed.update(writes_of.get(names.writes(record.ns, record.id), ()))
            _need(record, all_, needed)
    writes: list[AnyWrite] = [
        Put(name, text)
        for name, (key, text) in all_.parts.items()
        if name in needed and key not in kept
    ]
    for ns, head in all_.heads.items():
        ids = [id for space, id in kept if space == ns]
        if ids and head.id not in ids:
            newest = all_.records[ns, max(ids)]
            said = {"id": newest.id, "in": newest.document.rpartition("/")[2]}
            writes.append(Put(names.head(ns), encode(said, "the head")))
    thinned = {record.document for key, record in all_.records.items() if key not in kept}
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


def _need(record: CheckpointRecord, all_: Whole, found: set[str]) -> None:
    """Add what a checkpoint consists of."""
    found |= {record.document, names.head(record.ns)}
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
    chain = [] if target is None else (yield from _chain(thread, target, set(channels), memory))
    listings = [thread.listing(names.writes(thread.ns, record.id)) for record in chain]
    documents = yield from documents_of(*listings)
    found: dict[str, Any] = {}
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
        found[channel] = entry
    return found


def _chain(
    thread: GraphThread, target: CheckpointRecord, missing: set[str], memory: CheckpointMemory
) -> Plan[list[CheckpointRecord]]:
    """The ancestors, newest first, until each channel has a stored value."""
    read: dict[str, CheckpointRecord] = {}
    chain: list[CheckpointRecord] = []
    seen = {target.id}  # somebody may have put a circle
    parent = target.parent
    while parent is not None and parent not in seen and missing:
        seen.add(parent)
        if parent not in read:
            (page,) = yield (segments_upto(thread, names.segment(parent), PAGE),)
            found = yield from records_in(thread, listed(page).documents, memory)
            found.sort(key=_was_put_again)
            read = {each.id: each for each in found}
        record = read.get(parent) or (yield from find(thread, parent, memory))
        if record is None:
            break
        chain.append(record)
        missing = missing - record.values.keys()
        parent = record.parent
    return chain
