"""A LangGraph thread as one entity: what is stored of a checkpoint, and remembered of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from stateward.codec import decode
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import (
    CheckpointSegment,
    Fixed,
    Placeholder,
    TaskWrite,
    TemplateUse,
    of_state,
    records_of,
    use_of_template,
    use_of_writes,
)
from stateward.integrations.langgraph.list_deltas import KnownLists
from stateward.integrations.langgraph.waiting_writes import Place, TaskOutput, WaitingWrites
from stateward.ops import Entity, Fetch, Head, List, Value
from stateward.world import World

KNOWN = 10_000  # checkpoints that a saver remembers
TEMPLATES = 64  # of a namespace: where each checkpoint has its own, they stand in the segments
SEGMENTS = 1_000  # threads and namespaces whose newest segment it remembers
PAGE = 200  # documents, or threads
NAMES = 1000  # of documents, without what they hold

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
    def place(self) -> Place:
        return self.entity, self.ns

    @property
    def head(self) -> str:
        return names.head(self.ns)

    def checkpoint(self, id: str) -> str:
        return names.checkpoint(self.ns, id)


class CheckpointRecord(Struct):
    """A checkpoint as it is stored. `values` says for each channel where its value is.

    A small value stands here itself (`json`); another in a document of the checkpoint that wrote
    it (`in`); a list in the parts that make it up (`list`: see `ListRef`).
    """

    id: str
    ns: str
    parent: str | None
    versions: Json  # of the channels
    checkpoint: Any  # the rest of what LangGraph put
    metadata: Any
    values: dict[str, Json]
    parts: dict[str, Json] = {}  # of lists, by channel, that came with this checkpoint
    writes: list[TaskWrite] = []  # of its tasks, as far as its segment has them
    document: str = ""
    version: int = 0  # of the document
    superseded: bool = False  # another one was the newest when this was read

    @classmethod
    def all_of(
        cls, name: str, version: int, document: Json, templates: Mapping[str, Any]
    ) -> list[CheckpointRecord]:
        """The checkpoints of a document."""
        found = []
        for stored in records_of(document, templates):
            parts = {}
            for channel, where in stored["values"].items():
                if "new" in where:
                    part = parts[channel] = where["new"]
                    length, segment = part["keep"] + len(part["items"]), name.rpartition("/")[2]
                    ref = [stored["id"], length, part["stored"], segment]
                    stored["values"][channel] = {"list": ref}
            found.append(cls(**stored, parts=parts, document=name, version=version))
        return found

    def template_use(self) -> TemplateUse:
        """What is written of it in a segment, besides ids and writes."""
        rest = self.checkpoint
        if type(rest) is dict and type(rest.get("updated_channels")) is list:
            rest = rest | {"updated_channels": Fixed(rest["updated_channels"])}
        values: Json = {}
        for channel, where in self.values.items():
            if channel in self.parts:
                part = self.parts[channel]
                part = part | {"items": of_state(part["items"])}
                if "segment" in part:
                    part["segment"] = Placeholder(part["segment"])
                values[channel] = {"new": part}
            elif "list" in where:
                *ref, last = where["list"]
                values[channel] = {"list": [*ref, Placeholder(last)]}
            else:
                values[channel] = {"json": of_state(where["json"])} if "json" in where else where
        return use_of_template(
            {
                "versions": self.versions,
                "checkpoint": rest,
                "metadata": self.metadata,
                "values": values,
            }
        )


class ForkPoint(str):
    """The id of a checkpoint that was addressed though another was newer, or of one's parent.

    It stands in the config that a read gives, which LangGraph hands back with what continues it: so
    whoever puts with it means a fork, and nobody else does.
    """

    def __eq__(self, other: object) -> bool:
        # Another kind of text may know better what it is equal to.
        plain = type(other) in (str, ForkPoint) or not isinstance(other, str)
        return str.__eq__(self, other) if plain else NotImplemented

    __hash__ = str.__hash__


class KnownCheckpoint(Struct):
    """What this process knows of a checkpoint, or (id "") of the beginning of a namespace.

    `guard` is the version that the head had when this was the newest.
    """

    record: CheckpointRecord | None
    guard: int | None = None


class KnownTemplates(Struct):
    """Of one thread: templates that were read or put, and those that each namespace can rely on."""

    life: int | None = None
    templates: dict[str, Any] = {}
    there: dict[str, set[str]] = {}

    def admits(self, ns: str, puts: dict[str, str]) -> Callable[[TemplateUse], bool]:
        """Says whether a template stands in the thread, after `puts`, which may get it."""
        there = self.there.setdefault(ns, set())

        def admitted(use: TemplateUse) -> bool:
            if (
                self.templates.get(use.digest, use.template) != use.template
            ):  # another one has its digest
                return False
            if use.digest in there:
                return True
            if len(there) >= TEMPLATES:
                return False
            self.templates[use.digest] = use.template
            puts[names.template(use.digest)] = use.text
            return True

        return admitted


class CheckpointMemory:
    """What one saver remembers between its calls; any thread may ask."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists = KnownLists()
        self.waiting = WaitingWrites()
        self._known: OrderedDict[tuple[Entity, str, str], KnownCheckpoint] = OrderedDict()
        self._heads: OrderedDict[Entity, Head] = OrderedDict()  # of threads, as last read
        self._templates: OrderedDict[Entity, KnownTemplates] = OrderedDict()
        self._segments: OrderedDict[tuple[Entity, str], CheckpointSegment] = OrderedDict()
        self._early: OrderedDict[tuple[Entity, str, str], list[TaskWrite]] = OrderedDict()
        self._gone: OrderedDict[tuple[Entity, str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, thread: GraphThread, id: str) -> KnownCheckpoint | None:
        return self._known.get((thread.entity, thread.ns, id))

    def learn(
        self,
        thread: GraphThread,
        id: str,
        record: CheckpointRecord | None,
        head: CheckpointHead | None,
    ) -> KnownCheckpoint:
        """A checkpoint was read, and so was the head (None: there is none)."""
        with self._lock:
            key = (thread.entity, thread.ns, id)
            known = self._known.pop(key, None) or KnownCheckpoint(record)
            known.record = record
            if head is None or head.id == id:
                known.guard = 0 if head is None else head.version
            elif record is not None:
                record.superseded = True
            self._keep(key, known)
            return known

    def meet(self, thread: GraphThread, head: Head) -> None:
        """A thread was read, there or not."""
        with self._lock:
            self._heads.pop(thread.entity, None)
            self._heads[thread.entity] = head
            while len(self._heads) > KNOWN:
                self._heads.popitem(last=False)
            known = self._templates.get(thread.entity)
            if (
                known is not None and known.life != head.life
            ):  # it was deleted, with all its templates
                known.life = head.life
                known.there.clear()

    def head(self, thread: GraphThread) -> Head | None:
        """The head of a thread as of its last read; None: it was not read."""
        return self._heads.get(thread.entity)

    def stored(self, thread: GraphThread, record: CheckpointRecord, guard: int) -> None:
        """This process has put a checkpoint, which is now the newest."""
        with self._lock:
            key = (thread.entity, thread.ns, record.id)
            self._known.pop(key, None)
            self._keep(key, KnownCheckpoint(record, guard))

    def forget(self, thread: GraphThread, id: str) -> None:
        with self._lock:
            self._known.pop((thread.entity, thread.ns, id), None)

    def is_gone(self, thread: GraphThread, id: str) -> bool:
        """Whether a checkpoint was looked for in vain, though it had been there."""
        return (thread.entity, thread.ns, id) in self._gone

    def was_gone(self, thread: GraphThread, id: str) -> None:
        """What belongs to it brings nothing back."""
        with self._lock:
            self._gone[thread.entity, thread.ns, id] = None
            while len(self._gone) > KNOWN:
                self._gone.popitem(last=False)

    # --- segments and their templates

    def templates(self, thread: GraphThread) -> KnownTemplates:
        with self._lock:
            found = self._templates.pop(thread.entity, None) or KnownTemplates()
            self._templates[thread.entity] = found
            while len(self._templates) > SEGMENTS:
                self._templates.popitem(last=False)
            return found

    def segment(self, thread: GraphThread) -> CheckpointSegment | None:
        """The segment that this process wrote last, as it is when all under way is stored."""
        return self._segments.get((thread.entity, thread.ns))

    def write(self, thread: GraphThread, segment: CheckpointSegment) -> None:
        with self._lock:
            self._segments.pop((thread.entity, thread.ns), None)
            self._segments[thread.entity, thread.ns] = segment
            while len(self._segments) > SEGMENTS:
                self._segments.popitem(last=False)

    def relied_on(self, thread: GraphThread, segment: CheckpointSegment) -> None:
        """A segment is stored, and so are its templates."""
        there = self.templates(thread).there.setdefault(thread.ns, set())
        there.update(segment.used)

    def come_early(self, thread: GraphThread, id: str, writes: Sequence[TaskWrite]) -> None:
        """What a task wrote goes by itself, before the checkpoint that it belongs to."""
        with self._lock:
            self._early.setdefault((thread.entity, thread.ns, id), []).extend(writes)
            while len(self._early) > SEGMENTS:
                self._early.popitem(last=False)

    def early(self, thread: GraphThread, id: str) -> list[TaskWrite]:
        """What came early, once."""
        with self._lock:
            return self._early.pop((thread.entity, thread.ns, id), [])

    def close_segment(self, thread: GraphThread, document: str) -> None:
        """Something else is stored than this process takes it to be: nothing is added to it."""
        with self._lock:
            segment = self._segments.get((thread.entity, thread.ns))
            if segment is not None and names.checkpoints(thread.ns) + segment.first == document:
                del self._segments[thread.entity, thread.ns]

    def _keep(self, key: tuple[Entity, str, str], known: KnownCheckpoint) -> None:
        self._known[key] = known
        self._gone.pop(key, None)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)


def on_segment(
    segment: CheckpointSegment, record: CheckpointRecord, admitted: Callable[[TemplateUse], bool]
) -> CheckpointSegment:
    """A segment with another checkpoint; `admitted` says if the thread has its template."""
    use = record.template_use()
    segment = segment.with_checkpoint(record.id, record.parent, use, admitted(use))
    tasks: dict[tuple[str, str], dict[int, tuple[str, Any]]] = {}
    for write in record.writes:  # the first of each number stays
        of_task = tasks.setdefault((write.task, write.path), {})
        of_task.setdefault(write.number, (write.channel, write.value))
    for (task, path), writes in tasks.items():
        use = use_of_writes(path, writes.values())
        segment = segment.with_writes(record.id, task, use, admitted(use))
    return segment


def with_output(
    segment: CheckpointSegment, output: TaskOutput, admitted: Callable[[TemplateUse], bool]
) -> CheckpointSegment:
    """A segment with what a task wrote; it has nothing of that task yet."""
    use = use_of_writes(output.path, output.writes)
    return segment.with_writes(output.id, output.task, use, admitted(use))


class CheckpointHead(Struct, frozen=True):
    """Which checkpoint of a namespace was put last, and how many were before.

    `segment` is the last part of its document's name; None: the one of its own id.
    """

    id: str
    version: int
    segment: str | None = None

    @classmethod
    def of(cls, value: Value | None) -> CheckpointHead | None:
        if value is None:
            return None
        stored = decode(value.json)
        return cls(stored["id"], value.version, stored.get("in"))

    def document(self, thread: GraphThread) -> str:
        return names.checkpoints(thread.ns) + (self.segment or names.segment(self.id))
