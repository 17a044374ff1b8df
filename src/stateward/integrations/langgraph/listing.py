"""Listing checkpoints: those of one thread or of all, page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec.structs import replace

from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import copied
from stateward.integrations.langgraph.copies import settled
from stateward.integrations.langgraph.item_filter import field_at
from stateward.integrations.langgraph.reads import (
    documents_of,
    fetched,
    find,
    listed,
    load,
    records_in,
    segments_upto,
)
from stateward.integrations.langgraph.records import (
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import List, Value

CHECKPOINTS = 50  # of one page, each with all its values


class CheckpointQuery(NamedTuple):
    """The criteria of the checkpoints to list."""

    ns: str | None
    id: str | None
    before: str | None
    filter: Mapping[str, Any]


class CheckpointListing:
    """A listing of checkpoints, newest first, one thread after the other.

    `threads` is one thread, or a listing of all.
    """

    def __init__(
        self,
        threads: GraphThread | List,
        wanted: CheckpointQuery,
        limit: int | None,
        memory: CheckpointMemory,
        serde: SerializerProtocol,
    ) -> None:
        self._ahead = deque([threads] if isinstance(threads, GraphThread) else [])
        self._more = threads if isinstance(threads, List) else None
        self._wanted = wanted
        self._left = limit
        self._memory = memory
        self._serde = serde
        self._segments: List | None = None  # documents of the first thread that are yet to be read
        self._found: list[CheckpointRecord] = []  # checkpoints in the documents read so far
        self._seen: set[tuple[str, str]] = set()

    def page(self) -> Plan[list[CheckpointTuple] | None]:
        """Return the next page of checkpoints, or None at the end."""
        while self._left != 0:
            if self._found:
                tuples = yield from self._load()
                self._left = None if self._left is None else self._left - len(tuples)
                return tuples
            if self._segments is not None:
                yield from self._read(self._segments)
            elif self._ahead:
                self._thread = self._ahead.popleft()
                yield from self._find()
            elif self._more is not None:
                page = listed((yield (self._more,))[0])
                self._ahead.extend(GraphThread(each.entity, "", None) for each in page.entities)
                self._more = None if page.next is None else replace(self._more, after=page.next)
            else:
                break
        return None

    def _find(self) -> Plan[None]:
        """List the documents of a thread to read."""
        thread, wanted = self._thread, self._wanted
        yield from settled(thread, self._memory.world)
        self._seen.clear()
        if wanted.ns is None:  # namespaces overlap in time, so read and sort them together
            (documents,) = yield from documents_of(thread.listing(names.checkpoints(None)))
            yield from self._take(documents)
            return
        at = GraphThread(thread.entity, wanted.ns, thread.owner)
        if wanted.id is not None:
            record = yield from find(at, wanted.id, self._memory)
            self._found = [] if record is None or not self._matches(record) else [record]
            return
        few = CHECKPOINTS if self._left is None or wanted.filter else self._left + 2
        last = None if wanted.before is None else names.segment(wanted.before)
        self._segments = segments_upto(at, last, min(few, CHECKPOINTS))

    def _read(self, segments: List) -> Plan[None]:
        page = listed((yield (segments,))[0])
        self._segments = None if page.next is None else replace(segments, after=page.next)
        yield from self._take(page.documents)

    def _take(self, documents: Sequence[tuple[str, Value]]) -> Plan[None]:
        """Add the matching checkpoints of some documents, and sort all newest first."""
        last = None if self._wanted.before is None else names.part(self._wanted.before)
        records = yield from records_in(self._thread, documents, self._memory)
        # A checkpoint that was put again is the first of its own document.
        records.sort(key=lambda each: each.document != names.checkpoint(each.ns, each.id))
        for record in records:
            key = (record.ns, record.id)
            if key in self._seen or (last is not None and names.part(record.id) >= last):
                continue
            self._seen.add(key)
            if self._wanted.id in (None, record.id) and self._matches(record):
                self._found.append(record)
        self._found.sort(key=lambda each: names.part(each.id), reverse=True)

    def _load(self) -> Plan[list[CheckpointTuple]]:
        """Load the next checkpoints with all their parts."""
        thread, left = self._thread, self._left
        size = CHECKPOINTS if left is None else min(CHECKPOINTS, left)
        records, self._found = self._found[:size], self._found[size:]
        spaces = {names.head(record.ns) for record in records}
        heads = fetched((yield (thread.fetch(*spaces),))[0], thread).documents
        for record in records:
            at = GraphThread(thread.entity, record.ns, thread.owner)
            self._memory.learn(at, record.id, record, CheckpointHead.of(heads.get(at.head)))
        return (yield from load(thread, records, self._memory, self._serde))

    def _matches(self, record: CheckpointRecord) -> bool:
        if not self._wanted.filter:
            return True
        metadata = from_json(copied(record.metadata), self._serde)
        return all(field_at(metadata, key) == value for key, value in self._wanted.filter.items())
