"""Listing checkpoints: those of one thread or of all, page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec.structs import replace

from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.copies import settled
from stateward.integrations.langgraph.item_filter import field_at
from stateward.integrations.langgraph.reads import (
    decode_copy,
    documents_of,
    fetched,
    listed,
    load,
)
from stateward.integrations.langgraph.records import (
    NAMES,
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
)
from stateward.integrations.langgraph.serializer import from_json
from stateward.ops import List

CHECKPOINTS = 50  # of one page, each with all its values


class CheckpointQuery(NamedTuple):
    """Which checkpoints to list."""

    ns: str | None
    id: str | None
    before: str | None
    filter: Mapping[str, Any]


class CheckpointListing:
    """Checkpoints, newest first; those of several threads one thread after the other.

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
        self._names: list[str] = []  # of checkpoints of the first thread, to be looked at

    def page(self) -> Plan[list[CheckpointTuple] | None]:
        """The next ones; None: these were all."""
        while self._left != 0:
            if self._names:
                found = yield from self._load()
                self._left = None if self._left is None else self._left - len(found)
                return found
            if self._ahead:
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
        """The names of the checkpoints to look at, newest first."""
        thread, wanted = self._thread, self._wanted
        yield from settled(thread, self._memory.world)
        prefix = names.checkpoints(wanted.ns)
        if wanted.ns is not None and wanted.id is not None:
            self._names = [names.checkpoint(wanted.ns, wanted.id)]
        elif wanted.ns is not None and self._left is not None and not wanted.filter:
            after = None if wanted.before is None else names.checkpoint(wanted.ns, wanted.before)
            few = thread.listing(prefix, values=False, reverse=True, after=after, limit=self._left)
            self._names = [name for name, _ in listed((yield (few,))[0]).documents]
        else:
            (found,) = yield from documents_of(thread.listing(prefix, values=False, limit=NAMES))
            last = names.part(wanted.before) if wanted.before is not None else None
            only = names.part(wanted.id) if wanted.id is not None else None
            ids = [(name.rpartition("/")[2], name) for name, _ in found]
            self._names = [
                name
                for id, name in sorted(ids, reverse=True)
                if (last is None or id < last) and (only is None or id == only)
            ]

    def _load(self) -> Plan[list[CheckpointTuple]]:
        """Those of the next names that match."""
        thread, left = self._thread, self._left
        size = CHECKPOINTS if left is None else min(CHECKPOINTS, left)
        page, self._names = self._names[:size], self._names[size:]
        documents = fetched((yield (thread.fetch(*page),))[0], thread).documents
        records = [CheckpointRecord.of(documents[name]) for name in page if name in documents]
        matching = [record for record in records if self._matches(record)]
        if not matching:
            return []
        spaces = {names.head(record.ns) for record in matching}
        heads = fetched((yield (thread.fetch(*spaces),))[0], thread).documents
        for record in matching:
            at = GraphThread(thread.entity, record.ns, thread.owner)
            self._memory.learn(at, record.id, record, CheckpointHead.of(heads.get(at.head)))
        return (yield from load(thread, matching, self._memory, self._serde))

    def _matches(self, record: CheckpointRecord) -> bool:
        if not self._wanted.filter:
            return True
        metadata = from_json(decode_copy(record.metadata), self._serde)
        return all(field_at(metadata, key) == value for key, value in self._wanted.filter.items())
