"""A LangGraph thread as one entity: what is stored of a checkpoint, and remembered of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from stateward.codec import decode
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_sheets import (
    Fixed,
    FormUse,
    Sheet,
    TaskWrite,
    of_state,
    records_of,
    use_of_form,
    use_of_writes,
)
from stateward.integrations.langgraph.list_deltas import KnownLists
from stateward.ops import Entity, Fetch, Head, List, Value
from stateward.world import World

KNOWN = 10_000  # checkpoints that a saver remembers
FORMS = 64  # of a namespace: where each checkpoint has its own, they stand in the sheets
SHEETS = 1_000  # threads and namespaces whose newest sheet it remembers
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
    writes: list[TaskWrite] = []  # of its tasks, as far as its sheet has them
    document: str = ""
    version: int = 0  # of the document
    superseded: bool = False  # another one was the newest when this was read

    @classmethod
    def all_of(
        cls, name: str, version: int, document: Json, forms: Mapping[str, Any]
    ) -> list[CheckpointRecord]:
        """The checkpoints of a document."""
        found = []
        for stored in records_of(document, forms):
            parts = {}
            for channel, where in stored["values"].items():
                if "new" in where:
                    part = parts[channel] = where["new"]
                    length, sheet = part["keep"] + len(part["items"]), name.rpartition("/")[2]
                    ref = [stored["id"], length, part["stored"], sheet]
                    stored["values"][channel] = {"list": ref}
            found.append(cls(**stored, parts=parts, document=name, version=version))
        return found

    def form_use(self) -> FormUse:
        """What is written of it in a sheet, besides ids and writes."""
        rest = self.checkpoint
        if type(rest) is dict and type(rest.get("updated_channels")) is list:
            rest = rest | {"updated_channels": Fixed(rest["updated_channels"])}
        values: Json = {}
        for channel, where in self.values.items():
            if channel in self.parts:
                part = self.parts[channel]
                values[channel] = {"new": part | {"items": of_state(part["items"])}}
            else:
                values[channel] = {"json": of_state(where["json"])} if "json" in where else where
        return use_of_form(
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


class KnownForms(Struct):
    """Of one thread: forms that were read or put, and those that each namespace can rely on."""

    life: int | None = None
    forms: dict[str, Any] = {}
    there: dict[str, set[str]] = {}

    def admits(self, ns: str, puts: dict[str, str]) -> Callable[[FormUse], bool]:
        """Says whether a form stands in the thread, after `puts`, which may get it."""
        there = self.there.setdefault(ns, set())

        def admitted(use: FormUse) -> bool:
            if self.forms.get(use.digest, use.form) != use.form:  # another one has its digest
                return False
            if use.digest in there:
                return True
            if len(there) >= FORMS:
                return False
            self.forms[use.digest] = use.form
            puts[names.form(use.digest)] = use.text
            return True

        return admitted


class CheckpointMemory:
    """What one saver remembers between its calls; any thread may ask."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists = KnownLists()
        self._known: OrderedDict[tuple[Entity, str, str], KnownCheckpoint] = OrderedDict()
        self._heads: OrderedDict[Entity, Head] = OrderedDict()  # of threads, as last read
        self._forms: OrderedDict[Entity, KnownForms] = OrderedDict()
        self._sheets: OrderedDict[tuple[Entity, str], Sheet] = OrderedDict()
        self._early: OrderedDict[tuple[Entity, str, str], list[TaskWrite]] = OrderedDict()
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
            known = self._forms.get(thread.entity)
            if known is not None and known.life != head.life:  # it was deleted, with all its forms
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

    # --- sheets and their forms

    def forms(self, thread: GraphThread) -> KnownForms:
        with self._lock:
            found = self._forms.pop(thread.entity, None) or KnownForms()
            self._forms[thread.entity] = found
            while len(self._forms) > SHEETS:
                self._forms.popitem(last=False)
            return found

    def sheet(self, thread: GraphThread) -> Sheet | None:
        """The sheet that this process wrote last, as it is when all under way is stored."""
        return self._sheets.get((thread.entity, thread.ns))

    def write(self, thread: GraphThread, sheet: Sheet) -> None:
        with self._lock:
            self._sheets.pop((thread.entity, thread.ns), None)
            self._sheets[thread.entity, thread.ns] = sheet
            while len(self._sheets) > SHEETS:
                self._sheets.popitem(last=False)

    def relied_on(self, thread: GraphThread, sheet: Sheet) -> None:
        """A sheet is stored, and so are its forms."""
        there = self.forms(thread).there.setdefault(thread.ns, set())
        there.update(entry["f"] for entry in sheet.entries if type(entry["f"]) is str)

    def come_early(self, thread: GraphThread, id: str, writes: Sequence[TaskWrite]) -> None:
        """What a task wrote goes by itself, before the checkpoint that it belongs to."""
        with self._lock:
            self._early.setdefault((thread.entity, thread.ns, id), []).extend(writes)
            while len(self._early) > SHEETS:
                self._early.popitem(last=False)

    def early(self, thread: GraphThread, id: str) -> list[TaskWrite]:
        """What came early, once."""
        with self._lock:
            return self._early.pop((thread.entity, thread.ns, id), [])

    def close_sheet(self, thread: GraphThread, document: str) -> None:
        """Something else is stored than this process takes it to be: nothing is added to it."""
        with self._lock:
            sheet = self._sheets.get((thread.entity, thread.ns))
            if sheet is not None and names.checkpoints(thread.ns) + sheet.first == document:
                del self._sheets[thread.entity, thread.ns]

    def _keep(self, key: tuple[Entity, str, str], known: KnownCheckpoint) -> None:
        self._known[key] = known
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)


def on_sheet(sheet: Sheet, record: CheckpointRecord, admitted: Callable[[FormUse], bool]) -> Sheet:
    """A sheet with another checkpoint; `admitted` says whether its form stands in the thread."""
    use = record.form_use()
    sheet = sheet.with_checkpoint(record.id, record.parent, use, admitted(use))
    tasks: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for write in record.writes:
        tasks.setdefault((write.task, write.path), []).append((write.channel, write.value))
    for (task, path), writes in tasks.items():
        use = use_of_writes(path, writes)
        sheet = sheet.with_writes(record.id, task, use, admitted(use))
    return sheet


class CheckpointHead(Struct, frozen=True):
    """Which checkpoint of a namespace was put last, and how many were before.

    `sheet` is the last part of its document's name; None: the one of its own id.
    """

    id: str
    version: int
    sheet: str | None = None

    @classmethod
    def of(cls, value: Value | None) -> CheckpointHead | None:
        if value is None:
            return None
        stored = decode(value.json)
        return cls(stored["id"], value.version, stored.get("in"))

    def document(self, thread: GraphThread) -> str:
        return names.checkpoints(thread.ns) + (self.sheet or names.part(self.id))
