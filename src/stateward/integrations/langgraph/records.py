"""A LangGraph thread as one entity: what is stored of a checkpoint, and how it is read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from stateward.codec import decode
from stateward.errors import SchemaError
from stateward.integrations.bridge import Plan
from stateward.integrations.langgraph import names
from stateward.integrations.langgraph.list_deltas import KnownLists, ListRef, frozen
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import Entity, Fetch, Fetched, List, Listed, Op, Outcome, Value
from stateward.state.refusals import refuse

KNOWN = 10_000  # checkpoints that a saver remembers
PAGE = 200
LOOKS = 10

Json = dict[str, Any]


class GraphThread(Struct, frozen=True):
    """A namespace of a thread, and whom the caller takes the thread to belong to."""

    entity: Entity
    ns: str
    owner: str | None

    def listing(self, prefix: str, **options: Any) -> List:
        """A page of the thread's documents."""
        return List(
            self.entity.namespace,
            within=self.entity,
            owner=self.owner,
            prefix=prefix,
            limit=options.pop("limit", PAGE),
            **options,
        )

    def fetch(self, *documents: str) -> Fetch:
        return Fetch(self.entity, self.owner, documents=documents)

    @property
    def head(self) -> str:
        return names.head(self.ns)

    def checkpoint(self, id: str) -> str:
        return names.checkpoint(self.ns, id)


class CheckpointRecord(Struct):
    """A checkpoint as it is stored. `values` says for each channel where its value is.

    A small value stands here itself (`json`); another in a document of the checkpoint that wrote
    it (`in`); a list in the parts that make it up (`list`: newest part, length, elements stored).
    """

    id: str
    ns: str
    parent: str | None
    versions: Json  # of the channels
    checkpoint: Any  # the rest of what LangGraph put
    metadata: Any
    values: dict[str, Json]
    version: int = 0  # of the document

    @classmethod
    def of(cls, value: Value) -> CheckpointRecord:
        stored = decode(value.json)
        return cls(**stored, version=value.version)

    def stored(self) -> Json:
        """What is written; the version is the engine's."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "version"}


class KnownCheckpoints(Struct):
    """What this process knows of a checkpoint, or (id "") of the beginning of a namespace.

    `guard` is the version that the head had when this was the newest. `free`: it was addressed
    since though another was newer, so continuing it is meant as a fork.
    """

    record: CheckpointRecord | None
    guard: int | None = None
    free: bool = False


class CheckpointMemory:
    """What one saver remembers between its calls; any thread may ask."""

    def __init__(self) -> None:
        self.lists = KnownLists()
        self._known: OrderedDict[tuple[Entity, str, str], KnownCheckpoints] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, place: GraphThread, id: str) -> KnownCheckpoints | None:
        return self._known.get((place.entity, place.ns, id))

    def learn(
        self,
        place: GraphThread,
        id: str,
        record: CheckpointRecord | None,
        head: CheckpointHead | None,
    ) -> KnownCheckpoints:
        """A checkpoint was read, and so was the head (None: there is none)."""
        with self._lock:
            key = (place.entity, place.ns, id)
            known = self._known.pop(key, None) or KnownCheckpoints(record)
            known.record = record
            if head is None or head.id == id:
                known.guard, known.free = (0 if head is None else head.version), False
            else:
                known.free = True
            self._keep(key, known)
            return known

    def begin(self, place: GraphThread) -> None:
        """An older time of this namespace was asked for, and there was nothing yet."""
        with self._lock:
            key = (place.entity, place.ns, "")
            known = self._known.pop(key, None) or KnownCheckpoints(None)
            known.free = True
            self._keep(key, known)

    def stored(self, place: GraphThread, record: CheckpointRecord, guard: int) -> None:
        """This process has put a checkpoint, which is now the newest."""
        with self._lock:
            key = (place.entity, place.ns, record.id)
            self._known.pop(key, None)
            self._keep(key, KnownCheckpoints(record, guard))

    def forget(self, place: GraphThread, id: str) -> None:
        with self._lock:
            self._known.pop((place.entity, place.ns, id), None)

    def _keep(self, key: tuple[Entity, str, str], known: KnownCheckpoints) -> None:
        self._known[key] = known
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)


class CheckpointHead(Struct, frozen=True):
    """Which checkpoint of a namespace was put last, and how many were before."""

    id: str
    version: int

    @classmethod
    def of(cls, value: Value | None) -> CheckpointHead | None:
        return None if value is None else cls(decode(value.json)["id"], value.version)


def fetched(outcome: Outcome, place: GraphThread) -> Fetched:
    """What a fetch gave; another user's thread raises."""
    if not isinstance(outcome, Fetched):
        refuse(outcome, place.entity)
    return outcome


def listed(outcome: Outcome) -> Listed:
    assert isinstance(outcome, Listed)
    return outcome


def gather(listings: Sequence[List]) -> Plan[list[list[tuple[str, Value]]]]:
    """All documents of several listings, page by page, all of them at once."""
    found: list[list[tuple[str, Value]]] = [[] for _ in listings]
    open_ = dict(enumerate(listings))
    while open_:
        outcomes = yield tuple(open_.values())
        for (index, listing), outcome in zip(list(open_.items()), outcomes, strict=True):
            page = listed(outcome)
            found[index] += page.documents
            if page.next is None:
                del open_[index]
            else:
                open_[index] = _next(listing, page.next)
    return found


def _next(listing: List, after: str) -> List:
    return List(**{f: getattr(listing, f) for f in listing.__struct_fields__} | {"after": after})


# --- reading ----------------------------------------------------------------------------


def find(
    place: GraphThread, id: str | None, memory: CheckpointMemory
) -> Plan[CheckpointRecord | None]:
    """A checkpoint: the one of that id, or the one that was put last."""
    for _ in range(LOOKS):
        if id is None:
            newest = place.listing(names.checkpoints(place.ns), reverse=True, limit=1)
            first, page = yield (place.fetch(place.head), newest)
            head = CheckpointHead.of(fetched(first, place).documents.get(place.head))
            documents = dict(listed(page).documents)
            if head is None:
                memory.learn(place, "", None, None)
                return None
        else:
            (first,) = yield (place.fetch(place.head, place.checkpoint(id)),)
            documents = dict(fetched(first, place).documents)
            head = CheckpointHead.of(documents.get(place.head))
        wanted = head.id if id is None and head is not None else id
        assert wanted is not None
        name = place.checkpoint(wanted)
        if name not in documents and id is None:
            (again,) = yield (place.fetch(name),)
            documents = dict(fetched(again, place).documents)
        if name in documents:
            record = CheckpointRecord.of(documents[name])
            memory.learn(place, wanted, record, head)
            return record
        if id is not None:
            return None
        # It was removed between the two looks: look once more.
    raise SchemaError(
        f"the newest checkpoint of the thread {place.entity.id!r} is missing: it is being deleted, "
        "or was restored in part; restore the thread whole"
    )


def list_parts(
    place: GraphThread, channel: str, ref: ListRef, texts: dict[str, str]
) -> Plan[list[Any]]:
    """The elements of a list, as they are stored; `texts` has parts that were read before."""
    prefix = names.lists(place.ns, channel)
    pieces: list[list[Any]] = []
    id: str | None = ref.id
    wanted = ref.length
    while id is not None and wanted:
        name = prefix + names.part(id)
        if name not in texts:
            (page,) = yield (parts_from(place, channel, id, wanted),)
            texts.update({key: value.json for key, value in listed(page).documents})
        if name not in texts:
            raise SchemaError(
                f"a part of the list {channel!r} of the thread {place.entity.id!r} is missing: it "
                "was pruned by something else, or restored in part; restore the thread whole"
            )
        part = decode(texts[name])
        keep = part["keep"]
        pieces.append(part["items"][: max(0, wanted - keep)])
        wanted = min(wanted, keep)
        id = part["base"]
    return [item for piece in reversed(pieces) for item in piece]


def parts_from(place: GraphThread, channel: str, id: str, count: int) -> List:
    """A page of the parts of a list: the one of that checkpoint, and those before it."""
    prefix = names.lists(place.ns, channel)
    after = f"{prefix}{names.part(id)}!"  # sorts after that name and before any other
    return place.listing(prefix, reverse=True, after=after, limit=max(1, min(count, PAGE)))


def load(
    place: GraphThread,
    records: Sequence[CheckpointRecord],
    memory: CheckpointMemory,
    serde: SerializerProtocol,
) -> Plan[list[CheckpointTuple]]:
    """Checkpoints with their values and pending writes."""
    places = [GraphThread(place.entity, record.ns, place.owner) for record in records]
    documents = {
        names.value(record.ns, channel, value["in"]): ""
        for record in records
        for channel, value in record.values.items()
        if "in" in value
    }
    firsts: dict[str, List] = {}
    for at, record in zip(places, records, strict=True):
        for channel, value in record.values.items():
            if "list" in value:
                id, length, _ = value["list"]
                first = parts_from(at, channel, id, length)
                firsts[str(first.after)] = first
    pending = [place.listing(names.writes(record.ns, record.id)) for record in records]
    ops: tuple[Op, ...] = (place.fetch(*documents), *firsts.values(), *pending)
    outcomes = yield ops
    texts = {name: value.json for name, value in fetched(outcomes[0], place).documents.items()}
    for page in outcomes[1 : 1 + len(firsts)]:
        texts |= {name: value.json for name, value in listed(page).documents}
    writes: list[list[tuple[str, Value]]] = []
    for op, outcome in zip(pending, outcomes[1 + len(firsts) :], strict=True):
        page = listed(outcome)
        rest = [] if page.next is None else (yield from gather([_next(op, page.next)]))[0]
        writes.append([*page.documents, *rest])
    tuples = []
    for at, record, found in zip(places, records, writes, strict=True):
        values = yield from read_values(at, record, record.values, texts, memory, serde)
        tuples.append(_tuple(at, record, values, pending_writes(found, serde), serde))
    return tuples


def read_values(
    place: GraphThread,
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
            name = names.value(place.ns, channel, where["in"])
            if name not in texts:
                (outcome,) = yield (place.fetch(name),)
                found = fetched(outcome, place).documents
                texts |= {key: value.json for key, value in found.items()}
            if name not in texts:
                raise SchemaError(
                    f"the value of {channel!r} of the checkpoint {record.id!r} is missing: the "
                    "thread was changed by something else, or is being deleted"
                )
            values[channel] = from_json(decode(texts[name]), serde)
        else:
            ref = ListRef(*where["list"])
            items = yield from list_parts(place, channel, ref, texts)
            value = [from_json(item, serde) for item in items]
            memory.lists.put((place.entity.id, place.ns, channel), ref.id, frozen(value))
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
    place: GraphThread,
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
        config=config_of(place, record.id),
        checkpoint=checkpoint,
        metadata=from_json(decode_copy(record.metadata), serde),
        parent_config=config_of(place, record.parent) if record.parent else None,
        pending_writes=writes,
    )


def config_of(place: GraphThread, id: str) -> Any:
    """The address of a checkpoint, as LangGraph writes it."""
    return {
        "configurable": {
            "thread_id": place.entity.id,
            "checkpoint_ns": place.ns,
            "checkpoint_id": id,
        }
    }
