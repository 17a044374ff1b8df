"""A checkpoint before it is stored; a list that grew is represented by its new part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from stateward.codec import encode
from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.list_deltas import (
    Frozen,
    ListRef,
    Opaque,
    common_as_stored,
    frozen,
)
from stateward.integrations.langgraph.reads import ListParts, list_items
from stateward.integrations.langgraph.records import (
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
    Json,
)
from stateward.integrations.langgraph.serializer import to_json

INLINE = 256  # bytes of a value that is stored in the checkpoint itself
LARGE = 2_000  # bytes from which on an input or a part of a list is stored outside the segment
INPUT = "__start__"
SLACK = 16  # obsolete elements that may be stored before a list is rewritten


class Draft:
    """A checkpoint before it is stored: the places of its values, and documents to put."""

    def __init__(
        self, memory: CheckpointMemory, thread: GraphThread, id: str, serde: SerializerProtocol
    ) -> None:
        self._memory = memory
        self._thread = thread
        self._id = id
        self._serde = serde
        self.values: dict[str, Json] = {}
        self.parts: dict[str, Json] = {}  # parts of lists, for the segment
        self.puts: dict[str, str] = {}
        self.lists: dict[str, tuple[str, Frozen | None]] = {}  # by channel, with the newest part

    def add_all(
        self,
        checkpoint: Mapping[str, Any],
        parent: CheckpointRecord | None,
        new_versions: Mapping[str, Any],
    ) -> Plan[None]:
        """Add the value of each channel; a value shared with the parent keeps its place."""
        versions = checkpoint["channel_versions"]
        for channel, value in checkpoint["channel_values"].items():
            old = None if parent is None else parent.values.get(channel)
            version = versions.get(channel)
            same = version is not None and parent and parent.versions.get(channel) == version
            if old is not None and same and channel not in new_versions:
                self.values[channel] = old
            elif type(value) is list and value:
                yield from self.add_list(channel, value, old)
            else:
                self.add_value(channel, value)

    def add_value(self, channel: str, value: Any) -> None:
        plain = to_json(value, self._serde)
        text = encode(plain, "the state")
        # The next step consumes an input, so no other checkpoint shares the value.
        if len(text) <= (LARGE if channel == INPUT else INLINE):
            self.values[channel] = {"json": plain}
        else:
            self.puts[names.value(self._thread.ns, channel, self._id)] = text
            self.values[channel] = {"in": self._id}

    def add_list(self, channel: str, value: list[Any], old: Json | None) -> Plan[None]:
        """Add a list, by its new part if the list begins with the parent's list (`old`)."""
        base = None if old is None or "list" not in old else ListRef(*old["list"])
        keep, frozen_parent = 0, None
        if base is not None:
            keep, frozen_parent = yield from self._common(channel, base, value)
        if base is not None and keep == len(value) == base.length:
            self.values[channel] = {"list": list(base)}
            self.lists[channel] = (base.id, frozen_parent)
            return
        if base is None or not keep or base.stored + len(value) - keep > 2 * len(value) + SLACK:
            base, keep = None, 0
        items = [to_json(item, self._serde) for item in value[keep:]]
        size = len(encode(items, "the state"))
        if base is None and size <= INLINE:
            self.values[channel] = {"json": items}
            return
        part: Json = {"base": None, "keep": keep, "items": items}
        if base is not None:
            part |= {"base": base.id} | ({"segment": base.segment} if base.segment else {})
        total = len(items) + (0 if base is None else base.stored)
        self.values[channel] = {"list": [self._id, len(value), total]}
        if size <= LARGE:
            self.parts[channel] = part | {"stored": total}
        else:
            name = names.lists(self._thread.ns, channel) + names.part(self._id)
            self.puts[name] = encode(part, "the state")
        self.lists[channel] = (self._id, _extended(frozen_parent, keep, value))

    def _common(
        self, channel: str, base: ListRef, value: list[Any]
    ) -> Plan[tuple[int, Frozen | None]]:
        """Return how many elements the list shares with that of its parent's checkpoint."""
        thread = self._thread
        frozen_parent = self._memory.lists.get((thread.entity.id, thread.ns, channel), base.id)
        if frozen_parent is not None and len(frozen_parent) == base.length:
            try:
                return frozen_parent.common(value), frozen_parent
            except Opaque:
                pass  # a new element can only be compared in stored form
        items = yield from list_items(thread, channel, base, ListParts(), self._memory)
        return common_as_stored(items, value, self._serde), None


def _extended(kept: Frozen | None, keep: int, value: list[Any]) -> Frozen | None:
    if kept is None:
        return frozen(value)
    try:
        return kept.extended(keep, value[keep:])
    except Opaque:
        return None
