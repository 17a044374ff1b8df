"""A LangGraph thread as one entity: what is stored of a checkpoint, and remembered of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from stateward.codec import decode
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.list_deltas import KnownLists
from stateward.ops import Entity, Fetch, Head, List, Value
from stateward.world import World

KNOWN = 10_000  # checkpoints that a saver remembers
PAGE = 200  # documents, or threads
NAMES = 1000  # of documents, without what they hold

NOT_STORED = ("version", "superseded")  # of a checkpoint: what a read found out

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
    superseded: bool = False  # another one was the newest when this was read

    @classmethod
    def of(cls, value: Value) -> CheckpointRecord:
        stored = decode(value.json)
        return cls(**stored, version=value.version)

    def stored(self) -> Json:
        """What is written."""
        fields = self.__struct_fields__
        return {name: getattr(self, name) for name in fields if name not in NOT_STORED}


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


class CheckpointMemory:
    """What one saver remembers between its calls; any thread may ask."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists = KnownLists()
        self._known: OrderedDict[tuple[Entity, str, str], KnownCheckpoint] = OrderedDict()
        self._heads: OrderedDict[Entity, Head] = OrderedDict()  # of threads, as last read
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

    def _keep(self, key: tuple[Entity, str, str], known: KnownCheckpoint) -> None:
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
