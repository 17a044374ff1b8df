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
from stateward.integrations.langgraph.copies import finish
from stateward.integrations.langgraph.list_deltas import ListRef, frozen
from stateward.integrations.langgraph.records import (
    PAGE,
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    ForkPoint,
    GraphThread,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import Fetched, List, Listed, Op, Outcome, Value
from stateward.state.refusals import refuse

LOOKS = 10


def fetched(outcome: Outcome, thread: GraphThread) -> Fetched:
    """What a fetch gave; another user's thread raises."""
    if not isinstance(outcome, Fetched):
        refuse(outcome, thread.entity)
    return outcome


def listed(outcome: Outcome) -> Listed:
    assert isinstance(outcome, Listed)
    return outcome


def documents_of(*listings: List) -> Plan[list[list[tuple[str, Value]]]]:
    """All documents of several listings, page by page, all of them at once."""
    found = yield from pages(*listings)
    return [[each for page in of_one for each in page.documents] for of_one in found]


def find(
    thread: GraphThread, id: str | None, memory: CheckpointMemory
) -> Plan[CheckpointRecord | None]:
    """A checkpoint: the one of that id, or the one that was put last."""
    for _ in range(LOOKS):
        if id is None:
            newest = thread.listing(names.checkpoints(thread.ns), reverse=True, limit=1)
            first, page = yield (thread.fetch(thread.head, names.COPY), newest)
            if (note := fetched(first, thread).documents.get(names.COPY)) is not None:
                yield from finish(thread.entity, note, memory.world)
                continue
            head = CheckpointHead.of(fetched(first, thread).documents.get(thread.head))
            documents = dict(listed(page).documents)
            if head is None:
                memory.meet(thread, fetched(first, thread).head)
                memory.learn(thread, "", None, None)
                return None
        else:
            (first,) = yield (thread.fetch(thread.head, thread.checkpoint(id), names.COPY),)
            documents = dict(fetched(first, thread).documents)
            if names.COPY in documents:
                yield from finish(thread.entity, documents[names.COPY], memory.world)
                continue
            head = CheckpointHead.of(documents.get(thread.head))
        memory.meet(thread, fetched(first, thread).head)
        wanted = head.id if id is None and head is not None else id
        assert wanted is not None
        name = thread.checkpoint(wanted)
        if name not in documents and id is None:
            (again,) = yield (thread.fetch(name),)
            documents = dict(fetched(again, thread).documents)
        if name in documents:
            record = CheckpointRecord.of(documents[name])
            memory.learn(thread, wanted, record, head)
            return record
        if id is not None:
            return None
        # It was removed between the two looks: look once more.
    raise SchemaError(
        f"the newest checkpoint of the thread {thread.entity.id!r} is missing: it is being "
        "deleted, or was restored in part; restore the thread whole"
    )


def list_parts(
    thread: GraphThread, channel: str, ref: ListRef, texts: dict[str, str]
) -> Plan[list[Any]]:
    """The elements of a list, as they are stored; `texts` has parts that were read before."""
    prefix = names.lists(thread.ns, channel)
    pieces: list[list[Any]] = []
    id: str | None = ref.id
    wanted = ref.length
    while id is not None and wanted:
        name = prefix + names.part(id)
        if name not in texts:
            (page,) = yield (parts_from(thread, channel, id, wanted),)
            texts.update({key: value.json for key, value in listed(page).documents})
        if name not in texts:
            raise SchemaError(
                f"a part of the list {channel!r} of the thread {thread.entity.id!r} is missing: it "
                "was pruned by something else, or restored in part; restore the thread whole"
            )
        part = decode(texts[name])
        keep = part["keep"]
        pieces.append(part["items"][: max(0, wanted - keep)])
        wanted = min(wanted, keep)
        id = part["base"]
    return [item for piece in reversed(pieces) for item in piece]


def parts_from(thread: GraphThread, channel: str, id: str, count: int) -> List:
    """A page of the parts of a list: the one of that checkpoint, and those before it."""
    prefix = names.lists(thread.ns, channel)
    after = f"{prefix}{names.part(id)}!"  # sorts after that name and before any other
    return thread.listing(prefix, reverse=True, after=after, limit=max(1, min(count, PAGE)))


def load(
    thread: GraphThread,
    records: Sequence[CheckpointRecord],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[list[CheckpointTuple]]:
    """Checkpoints with their values and pending writes."""
    threads = [GraphThread(thread.entity, record.ns, thread.owner) for record in records]
    documents = {
        names.value(record.ns, channel, value["in"]): ""
        for record in records
        for channel, value in record.values.items()
        if "in" in value
    }
    firsts: dict[str, List] = {}
    for at, record in zip(threads, records, strict=True):
        for channel, value in record.values.items():
            if "list" in value:
                id, length, _ = value["list"]
                first = parts_from(at, channel, id, length)
                firsts[str(first.after)] = first
    pending = [thread.listing(names.writes(record.ns, record.id)) for record in records]
    ops: tuple[Op, ...] = (thread.fetch(*documents), *firsts.values(), *pending)
    outcomes = yield ops
    texts = {name: value.json for name, value in fetched(outcomes[0], thread).documents.items()}
    for page in outcomes[1 : 1 + len(firsts)]:
        texts |= {name: value.json for name, value in listed(page).documents}
    writes: list[list[tuple[str, Value]]] = []
    for op, outcome in zip(pending, outcomes[1 + len(firsts) :], strict=True):
        page = listed(outcome)
        rest = (
            [] if page.next is None else (yield from documents_of(replace(op, after=page.next)))[0]
        )
        writes.append([*page.documents, *rest])
    tuples = []
    for at, record, found in zip(threads, records, writes, strict=True):
        values = yield from read_values(at, record, record.values, texts, memory, serde)
        tuples.append(_tuple(at, record, values, pending_writes(found, serde), serde))
    return tuples


def read_values(
    thread: GraphThread,
    record: CheckpointRecord,
    channels: Iterable[str],
    texts: dict[str, str],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[dict[str, Any]]:
    """The values of some channels; `texts` has documents that were read before."""
    values: dict[str, Any] = {}
    for channel in channels:
        where = record.values[channel]
        if "json" in where:
            values[channel] = from_json(decode_copy(where["json"]), serde)
        elif "in" in where:
            name = names.value(thread.ns, channel, where["in"])
            if name not in texts:
                (outcome,) = yield (thread.fetch(name),)
                found = fetched(outcome, thread).documents
                texts |= {key: value.json for key, value in found.items()}
            if name not in texts:
                raise SchemaError(
                    f"the value of {channel!r} of the checkpoint {record.id!r} is missing: the "
                    "thread was changed by something else, or is being deleted"
                )
            values[channel] = from_json(decode(texts[name]), serde)
        else:
            ref = ListRef(*where["list"])
            items = yield from list_parts(thread, channel, ref, texts)
            value = [from_json(item, serde) for item in items]
            memory.lists.put((thread.entity.id, thread.ns, channel), ref.id, frozen(value))
            values[channel] = value
    return values


def decode_copy(value: Any) -> Any:
    """A record may be remembered: what is given out must be nobody else's."""
    if type(value) is dict:
        return {key: decode_copy(item) for key, item in value.items()}
    if type(value) is list:
        return [decode_copy(item) for item in value]
    return value


def pending_writes(
    documents: Sequence[tuple[str, Value]], serde: SerializerProtocol
) -> list[tuple[str, str, Any]]:
    """In the order in which a super-step applies them."""
    found = []
    for name, value in documents:
        write = decode(value.json)
        at = (write["path"], write["task"], names.index_of(name))
        found.append((at, (write["task"], write["channel"], from_json(write["value"], serde))))
    return [write for _, write in sorted(found, key=lambda each: each[0])]


def _tuple(
    thread: GraphThread,
    record: CheckpointRecord,
    values: Mapping[str, Any],
    writes: list[tuple[str, str, Any]],
    serde: SerializerProtocol,
) -> CheckpointTuple:
    checkpoint: Any = from_json(decode_copy(record.checkpoint), serde)
    checkpoint |= {
        "id": record.id,
        "channel_versions": dict(record.versions),
        "channel_values": values,
    }
    return CheckpointTuple(
        config=config_of(thread, ForkPoint(record.id) if record.superseded else record.id),
        checkpoint=checkpoint,
        metadata=from_json(decode_copy(record.metadata), serde),
        parent_config=config_of(thread, ForkPoint(record.parent)) if record.parent else None,
        pending_writes=writes,
    )


def config_of(thread: GraphThread, id: str) -> Any:
    """The address of a checkpoint, as LangGraph writes it."""
    return {
        "configurable": {
            "thread_id": thread.entity.id,
            "checkpoint_ns": thread.ns,
            "checkpoint_id": id,
        }
    }
