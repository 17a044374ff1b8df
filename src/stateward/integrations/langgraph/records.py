"""A LangGraph thread as one entity: the stored and the remembered data of checkpoints."""

from __future__ import annotations

import threading
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
from stateward.integrations.recent import Recent
from stateward.ops import Entity, Fetch, Head, List, Value
from stateward.world import World

KNOWN = 10_000  # checkpoints that a saver remembers
TEMPLATES = 64  # templates of a namespace; beyond these, segments contain their own templates
SEGMENTS = 1_000  # threads and namespaces whose newest segment is remembered
PAGE = 200  # documents, or threads
NAMES = 1000  # bytes of a document without its contents

Json = dict[str, Any]
CheckpointKey = tuple[Entity, str, str]  # a thread, a namespace and an id


class GraphThread(Struct, frozen=True):
    """A namespace of a thread, and the owner that the caller expects."""

    entity: Entity
    ns: str
    owner: str | None

    def listing(self, prefix: str, **options: Any) -> List:
        """Return a listing of the thread's documents."""
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
    """A stored checkpoint. `values` says for each channel where its value is.

    A small value stands here itself (`json`); another in a document of the checkpoint that wrote
    it (`in`); a list in the parts that make it up (`list`: see `ListRef`).
    """

    id: str
    ns: str
    parent: str | None
    versions: Json  # versions of the channels
    checkpoint: Any  # the other fields of LangGraph's checkpoint
    metadata: Any
    values: dict[str, Json]
    parts: dict[str, Json] = {}  # new parts of lists, by channel
    writes: list[TaskWrite] = []  # writes of its tasks that are in its segment
    document: str = ""
    version: int = 0  # version of the document
    superseded: bool = False  # another one was the newest when this was read

    @classmethod
    def all_of(
        cls, name: str, version: int, document: Json, templates: Mapping[str, Any]
    ) -> list[CheckpointRecord]:
        """Return the checkpoints of a document."""
        records = []
        for stored in records_of(document, templates):
            parts = {}
            for channel, where in stored["values"].items():
                if "new" in where:
                    part = parts[channel] = where["new"]
                    length, segment = part["keep"] + len(part["items"]), name.rpartition("/")[2]
                    ref = [stored["id"], length, part["stored"], segment]
                    stored["values"][channel] = {"list": ref}
            records.append(cls(**stored, parts=parts, document=name, version=version))
        return records

    def template_use(self) -> TemplateUse:
        """Return the template use of the checkpoint, which has all but ids and writes."""
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
    """The id of a checkpoint that was read when another was newer, or of a checkpoint's parent.

    The id stands in the config of a read, which LangGraph passes back with the next checkpoint: so
    a put with a `ForkPoint` means a fork, and a put without one does not.
    """

    def __eq__(self, other: object) -> bool:
        # Another subclass of str may define its own comparison.
        plain = type(other) in (str, ForkPoint) or not isinstance(other, str)
        return str.__eq__(self, other) if plain else NotImplemented

    __hash__ = str.__hash__


class KnownCheckpoint(Struct):
    """A checkpoint as this process knows it, or (id "") the beginning of a namespace.

    `guard` is the version that the head had when this was the newest.
    """

    record: CheckpointRecord | None
    guard: int | None = None


class KnownTemplates(Struct):
    """The known templates of one thread, and those that each namespace can rely on."""

    life: int | None = None
    templates: dict[str, Any] = {}
    there: dict[str, set[str]] = {}

    def admits(self, ns: str, puts: dict[str, str]) -> Callable[[TemplateUse], bool]:
        """Return a test of whether the thread has a template, which adds new ones to `puts`."""
        digests = self.there.setdefault(ns, set())

        def admitted(use: TemplateUse) -> bool:
            if self.templates.get(use.digest, use.template) != use.template:
                return False  # another template has the same digest
            if use.digest in digests:
                return True
            if len(digests) >= TEMPLATES:
                return False
            self.templates[use.digest] = use.template
            puts[names.template(use.digest)] = use.text
            return True

        return admitted


class CheckpointMemory:
    """The memory of one saver between its calls; safe to use from any thread."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists = KnownLists()
        self.waiting = WaitingWrites()
        self._known: Recent[CheckpointKey, KnownCheckpoint] = Recent(KNOWN)
        self._heads: Recent[Entity, Head] = Recent(KNOWN)  # heads of threads, as last read
        self._templates: Recent[Entity, KnownTemplates] = Recent(SEGMENTS)
        self._segments: Recent[Place, CheckpointSegment] = Recent(SEGMENTS)
        self._early: Recent[CheckpointKey, list[TaskWrite]] = Recent(SEGMENTS)
        self._gone: Recent[CheckpointKey, None] = Recent(KNOWN)
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
        """Remember a checkpoint and the head that was read with it; None: missing."""
        with self._lock:
            key = (thread.entity, thread.ns, id)
            checkpoint = self._known.get(key) or KnownCheckpoint(record)
            checkpoint.record = record
            if head is None or head.id == id:
                checkpoint.guard = 0 if head is None else head.version
            elif record is not None:
                record.superseded = True
            self._keep(key, checkpoint)
            return checkpoint

    def meet(self, thread: GraphThread, head: Head) -> None:
        """Remember the head of a thread that was read, existing or not."""
        with self._lock:
            self._heads[thread.entity] = head
            templates = self._templates.get(thread.entity)
            if templates is not None and templates.life != head.life:  # the thread was deleted
                templates.life = head.life
                templates.there.clear()

    def head(self, thread: GraphThread) -> Head | None:
        """Return the head of a thread as of its last read, or None."""
        return self._heads.get(thread.entity)

    def stored(self, thread: GraphThread, record: CheckpointRecord, guard: int) -> None:
        """Remember a checkpoint of this process, which is now the newest."""
        with self._lock:
            self._keep((thread.entity, thread.ns, record.id), KnownCheckpoint(record, guard))

    def forget(self, thread: GraphThread, id: str) -> None:
        with self._lock:
            self._known.pop((thread.entity, thread.ns, id), None)

    def is_gone(self, thread: GraphThread, id: str) -> bool:
        """Return whether a checkpoint that had existed was found to be missing."""
        return (thread.entity, thread.ns, id) in self._gone

    def was_gone(self, thread: GraphThread, id: str) -> None:
        """Note that a checkpoint is gone, so that its later writes restore nothing."""
        with self._lock:
            self._gone[thread.entity, thread.ns, id] = None

    # --- segments and their templates

    def templates(self, thread: GraphThread) -> KnownTemplates:
        with self._lock:
            templates = self._templates.get(thread.entity) or KnownTemplates()
            self._templates[thread.entity] = templates
            return templates

    def segment(self, thread: GraphThread) -> CheckpointSegment | None:
        """Return the last segment of this process, including writes that are under way."""
        return self._segments.get((thread.entity, thread.ns))

    def write(self, thread: GraphThread, segment: CheckpointSegment) -> None:
        with self._lock:
            self._segments[thread.entity, thread.ns] = segment

    def relied_on(self, thread: GraphThread, segment: CheckpointSegment) -> None:
        """Remember that a segment and its templates are stored."""
        there = self.templates(thread).there.setdefault(thread.ns, set())
        there.update(segment.used)

    def come_early(self, thread: GraphThread, id: str, writes: Sequence[TaskWrite]) -> None:
        """Note writes of a task that are stored before the checkpoint that they belong to."""
        with self._lock:
            key = (thread.entity, thread.ns, id)
            self._early[key] = [*self._early.get(key, ()), *writes]

    def early(self, thread: GraphThread, id: str) -> list[TaskWrite]:
        """Return and forget the writes that came early."""
        with self._lock:
            return self._early.pop((thread.entity, thread.ns, id), [])

    def close_segment(self, thread: GraphThread, document: str) -> None:
        """Add nothing more to a segment whose stored state differs from the expected one."""
        with self._lock:
            segment = self._segments.get((thread.entity, thread.ns))
            if segment is not None and names.checkpoints(thread.ns) + segment.first == document:
                del self._segments[thread.entity, thread.ns]

    def _keep(self, key: CheckpointKey, known: KnownCheckpoint) -> None:
        self._known[key] = known
        self._gone.pop(key, None)


def on_segment(
    segment: CheckpointSegment, record: CheckpointRecord, admitted: Callable[[TemplateUse], bool]
) -> CheckpointSegment:
    """Return a segment with another checkpoint; `admitted`: the thread has its template."""
    use = record.template_use()
    segment = segment.with_checkpoint(record.id, record.parent, use, admitted(use))
    tasks: dict[str, tuple[str, dict[int, tuple[str, Any]]]] = {}
    for write in record.writes:  # the first write of each number stays
        _, of_task = tasks.setdefault(write.task, (write.path, {}))
        of_task.setdefault(write.number, (write.channel, write.value))
    for task, (path, writes) in tasks.items():
        use = use_of_writes(path, writes.values())
        segment = segment.with_writes(record.id, task, use, admitted(use))
    return segment


def with_output(
    segment: CheckpointSegment, output: TaskOutput, admitted: Callable[[TemplateUse], bool]
) -> CheckpointSegment:
    """Return a segment with the writes of a task that has none in it yet."""
    use = use_of_writes(output.path, output.writes)
    return segment.with_writes(output.id, output.task, use, admitted(use))


class CheckpointHead(Struct, frozen=True):
    """The last checkpoint put in a namespace, and the number of those before.

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
