"""Reading a LangGraph thread: checkpoints with their values and pending writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec.structs import replace

from stateward.codec import decode
from stateward.errors import SchemaError
from stateward.integrations.bridge import Plan, pages
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import copied, parts_of, templates_of
from stateward.integrations.langgraph.copies import finish
from stateward.integrations.langgraph.list_deltas import ListRef, frozen
from stateward.integrations.langgraph.records import (
    PAGE,
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    ForkPoint,
    GraphThread,
    Json,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import Fetched, List, Listed, Op, Outcome, Value
from stateward.state.refusals import refuse

LOOKS = 10


def fetched(outcome: Outcome, thread: GraphThread) -> Fetched:
    """Return the result of a fetch; another user's thread raises."""
    if not isinstance(outcome, Fetched):
        refuse(outcome, thread.entity)
    return outcome


def listed(outcome: Outcome) -> Listed:
    assert isinstance(outcome, Listed)
    return outcome


def documents_of(*listings: List) -> Plan[list[list[tuple[str, Value]]]]:
    """Return all documents of several listings, fetching their pages concurrently."""
    listed_pages = yield from pages(*listings)
    return [[each for page in of_one for each in page.documents] for of_one in listed_pages]


def find(
    thread: GraphThread, id: str | None, memory: CheckpointMemory
) -> Plan[CheckpointRecord | None]:
    """Return the checkpoint with an id, or the one that was put last."""
    for _ in range(LOOKS):
        # The segment of a checkpoint is the last that does not begin after it, unless several
        # runs were under way at once.
        nearest = segments_upto(thread, None if id is None else names.segment(id), 1)
        first, second = yield (thread.fetch(thread.head, names.COPY), nearest)
        about = fetched(first, thread)
        if (note := about.documents.get(names.COPY)) is not None:
            yield from finish(thread.entity, note, memory.world)
            continue
        memory.meet(thread, about.head)
        head = CheckpointHead.of(about.documents.get(thread.head))
        if id is None and head is None:
            memory.learn(thread, "", None, None)
            return None
        wanted = head.id if id is None and head is not None else id
        assert wanted is not None
        page = listed(second)
        record = yield from _in_page(thread, wanted, page, memory)
        if record is None and head is not None and head.id == wanted:
            name = head.document(thread)
            (again,) = yield (thread.fetch(name),)
            there = fetched(again, thread).documents
            records = yield from records_in(thread, there.items(), memory)
            record = record_of(records, wanted)
        while record is None and page.next is not None:
            page = listed((yield (replace(nearest, after=page.next, limit=PAGE),))[0])
            record = yield from _in_page(thread, wanted, page, memory)
        if record is not None:
            memory.learn(thread, wanted, record, head)
            return record
        if id is not None:
            return None
        # The checkpoint was removed between the two reads: read once more.
    raise SchemaError(
        f"the newest checkpoint of the thread {thread.entity.id!r} is missing: it is being "
        "deleted, or was restored in part; restore the thread whole"
    )


def _in_page(
    thread: GraphThread, id: str, page: Listed, memory: CheckpointMemory
) -> Plan[CheckpointRecord | None]:
    records = yield from records_in(thread, page.documents, memory)
    return record_of(records, id)


def record_of(records: Iterable[CheckpointRecord], id: str) -> CheckpointRecord | None:
    """Return the checkpoint with an id; of two, the one that was put again."""
    same_id = [record for record in records if record.id == id]
    again = [record for record in same_id if record.document == names.checkpoint(record.ns, id)]
    return next(iter(again or same_id), None)


def segments_upto(thread: GraphThread, last: str | None, limit: int) -> List:
    """Return a listing of segments, newest first, from the name `last` backwards."""
    prefix = names.checkpoints(thread.ns)
    # The character sorts after the wanted name and before any other name.
    after = None if last is None else f"{prefix}{last}!"
    return thread.listing(prefix, reverse=True, after=after, limit=limit)


def records_in(
    thread: GraphThread, documents: Iterable[tuple[str, Value]], memory: CheckpointMemory
) -> Plan[list[CheckpointRecord]]:
    """Return the checkpoints of some documents."""
    stored = [(name, value.version, decode(value.json)) for name, value in documents]
    templates = yield from _templates_of(thread, [each for *_, each in stored], memory)
    return [record for each in stored for record in CheckpointRecord.all_of(*each, templates)]


def _templates_of(
    thread: GraphThread, stored: Sequence[Json], memory: CheckpointMemory
) -> Plan[Mapping[str, Any]]:
    """Return the templates of some documents; unknown ones are read."""
    thread_templates = memory.templates(thread)
    needed = dict[str, set[str]]()
    for each in stored:
        needed.setdefault(each.get("ns", ""), set()).update(templates_of(each))
    if missing := set().union(*needed.values()) - thread_templates.templates.keys():
        (outcome,) = yield (thread.fetch(*map(names.template, missing)),)
        templates = fetched(outcome, thread).documents
        if len(templates) < len(missing):
            raise SchemaError(
                f"a template of the thread {thread.entity.id!r} is missing: it is being "
                "deleted, or was restored in part; restore the thread whole"
            )
        thread_templates.templates |= {
            digest: decode(templates[names.template(digest)].json) for digest in missing
        }
    for ns, digests in needed.items():
        thread_templates.there.setdefault(ns, set()).update(digests)
    return thread_templates.templates


# --- lists --------------------------------------------------------------------------------


class ListParts:
    """Parts of lists read so far, from segments or from documents of their own."""

    def __init__(self, records: Iterable[CheckpointRecord] = ()) -> None:
        self._shared: dict[tuple[str, str, str], Any] = {}  # by namespace, channel, checkpoint
        self._alone: dict[str, Any] = {}  # parts by document name
        self.add(records)

    def add(self, records: Iterable[CheckpointRecord]) -> None:
        for record in records:
            for channel, part in record.parts.items():
                self._shared[record.ns, channel, record.id] = part

    def take(self, thread: GraphThread, page: Listed, memory: CheckpointMemory) -> Plan[None]:
        """Take in the page that `parts_from` asked for."""
        read = [(name, decode(value.json)) for name, value in page.documents]
        segments = [stored for name, stored in read if name.startswith("c/")]
        templates = yield from _templates_of(thread, segments, memory)
        for stored in segments:
            ns = stored.get("ns", "")
            for id, channel, part in parts_of(stored, templates):
                self._shared[ns, channel, id] = part
        self._alone |= {name: stored for name, stored in read if name.startswith("l/")}

    def items(self, ns: str, channel: str, ref: ListRef) -> tuple[list[Any], ListRef | None]:
        """Return the known elements, and the part that precedes them."""
        prefix = names.lists(ns, channel)
        pieces: list[list[Any]] = []
        id: str | None = ref.id
        length, segment = ref.length, ref.segment
        while id is not None and length:
            part = self._shared.get((ns, channel, id)) or self._alone.get(prefix + names.part(id))
            if part is None:
                break
            keep = part["keep"]
            pieces.append(part["items"][: max(0, length - keep)])
            length, segment = min(length, keep), part.get("segment")
            id = part["base"]
        items = [item for piece in reversed(pieces) for item in piece]
        return items, None if id is None or not length else ListRef(id, length, 0, segment)


def parts_from(thread: GraphThread, channel: str, ref: ListRef) -> List:
    """Return a listing of the documents with a list's parts, newest first."""
    if ref.segment is not None:
        return segments_upto(thread, ref.segment, min(ref.length // 2 + 1, PAGE))
    return _parts_alone(thread, channel, ref)


def _parts_alone(thread: GraphThread, channel: str, ref: ListRef) -> List:
    prefix = names.lists(thread.ns, channel)
    after = f"{prefix}{names.part(ref.id)}!"  # sorts after that name and before any other
    return thread.listing(prefix, reverse=True, after=after, limit=min(ref.length, PAGE))


def list_items(
    thread: GraphThread, channel: str, ref: ListRef, parts: ListParts, memory: CheckpointMemory
) -> Plan[list[Any]]:
    """Return the stored elements of a list; `parts` has the parts that were read before."""
    pieces: list[list[Any]] = []
    rest: ListRef | None = ref if ref.length else None
    asked: ListRef | None = None
    while rest is not None:
        again = asked is not None and asked.id == rest.id
        items, after = parts.items(thread.ns, channel, rest)
        if after is not None and after.id == rest.id:  # no part of the list is known
            if again and rest.segment is None:
                raise SchemaError(
                    f"a part of the list {channel!r} of the thread {thread.entity.id!r} is "
                    "missing: it was pruned by something else, or restored in part; restore the "
                    "thread whole"
                )
            if again:  # thinning out has moved the part to a document of its own
                rest = rest._replace(segment=None)
            asked = rest
            (page,) = yield (parts_from(thread, channel, rest),)
            yield from parts.take(thread, listed(page), memory)
            continue
        pieces.append(items)
        rest = after
    return [item for piece in reversed(pieces) for item in piece]


# --- values -------------------------------------------------------------------------------


def load(
    thread: GraphThread,
    records: Sequence[CheckpointRecord],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[list[CheckpointTuple]]:
    """Load checkpoints with their values and pending writes."""
    threads = [GraphThread(thread.entity, record.ns, thread.owner) for record in records]
    documents = {
        names.value(record.ns, channel, value["in"]): ""
        for record in records
        for channel, value in record.values.items()
        if "in" in value
    }
    parts = ListParts(records)
    firsts: dict[str, List] = {}
    for at, record in zip(threads, records, strict=True):
        for channel, value in record.values.items():
            if "list" in value:
                _, after = parts.items(record.ns, channel, ListRef(*value["list"]))
                if after is not None:
                    first = parts_from(at, channel, after)
                    firsts[str(first.after)] = first
    pending = [thread.listing(names.writes(record.ns, record.id)) for record in records]
    ops: tuple[Op, ...] = (thread.fetch(*documents), *firsts.values(), *pending)
    outcomes = yield ops
    texts = {name: value.json for name, value in fetched(outcomes[0], thread).documents.items()}
    for page in outcomes[1 : 1 + len(firsts)]:
        yield from parts.take(thread, listed(page), memory)
    writes: list[list[tuple[str, Value]]] = []
    for op, outcome in zip(pending, outcomes[1 + len(firsts) :], strict=True):
        page = listed(outcome)
        rest = (
            [] if page.next is None else (yield from documents_of(replace(op, after=page.next)))[0]
        )
        writes.append([*page.documents, *rest])
    tuples = []
    for at, record, stored in zip(threads, records, writes, strict=True):
        values = yield from read_values(at, record, record.values, texts, parts, memory, serde)
        tuples.append(_tuple(at, record, values, pending_writes(record, stored, serde), serde))
    return tuples


def read_values(
    thread: GraphThread,
    record: CheckpointRecord,
    channels: Iterable[str],
    texts: dict[str, str],
    parts: ListParts,
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[dict[str, Any]]:
    """Return the values of channels; `texts` and `parts` have the documents read before."""
    values: dict[str, Any] = {}
    for channel in channels:
        where = record.values[channel]
        if "json" in where:
            values[channel] = from_json(copied(where["json"]), serde)
        elif "in" in where:
            name = names.value(thread.ns, channel, where["in"])
            if name not in texts:
                (outcome,) = yield (thread.fetch(name),)
                documents = fetched(outcome, thread).documents
                texts |= {key: value.json for key, value in documents.items()}
            if name not in texts:
                raise SchemaError(
                    f"the value of {channel!r} of the checkpoint {record.id!r} is missing: the "
                    "thread was changed by something else, or is being deleted"
                )
            values[channel] = from_json(decode(texts[name]), serde)
        else:
            ref = ListRef(*where["list"])
            items = yield from list_items(thread, channel, ref, parts, memory)
            value = [from_json(copied(item), serde) for item in items]
            memory.lists.put((thread.entity.id, thread.ns, channel), ref.id, frozen(value))
            values[channel] = value
    return values


def pending_writes(
    record: CheckpointRecord, documents: Sequence[tuple[str, Value]], serde: SerializerProtocol
) -> list[tuple[str, str, Any]]:
    """Return writes in the order of their super-step; the first of a task and number counts."""
    stored = [
        (write.path, write.task, write.number, write.channel, write.value)
        for write in record.writes
    ]
    for name, value in documents:
        write = decode(value.json)
        number = names.index_of(name)
        stored.append((write["path"], write["task"], number, write["channel"], write["value"]))
    firsts: dict[tuple[str, int], tuple[str, str, int, str, Any]] = {}
    for each in stored:  # a task that is run again, even by another path, has written already
        firsts.setdefault((each[1], each[2]), each)
    return [
        (task, channel, from_json(copied(value), serde))
        for _, task, _, channel, value in sorted(firsts.values(), key=lambda each: each[:3])
    ]


def _tuple(
    thread: GraphThread,
    record: CheckpointRecord,
    values: Mapping[str, Any],
    writes: list[tuple[str, str, Any]],
    serde: SerializerProtocol,
) -> CheckpointTuple:
    checkpoint: Any = from_json(copied(record.checkpoint), serde)
    checkpoint |= {
        "id": record.id,
        "channel_versions": dict(record.versions),
        "channel_values": values,
    }
    return CheckpointTuple(
        config=config_of(thread, ForkPoint(record.id) if record.superseded else record.id),
        checkpoint=checkpoint,
        metadata=from_json(copied(record.metadata), serde),
        parent_config=config_of(thread, ForkPoint(record.parent)) if record.parent else None,
        pending_writes=writes,
    )


def config_of(thread: GraphThread, id: str) -> Any:
    """Return the config that addresses a checkpoint in LangGraph."""
    return {
        "configurable": {
            "thread_id": thread.entity.id,
            "checkpoint_ns": thread.ns,
            "checkpoint_id": id,
        }
    }
