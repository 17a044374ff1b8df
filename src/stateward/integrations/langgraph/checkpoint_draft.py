"""A checkpoint as it comes together, before it is stored: a list that grew by its new part."""

from __future__ import annotations

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
from stateward.integrations.langgraph.records import CheckpointMemory, GraphThread, Json
from stateward.integrations.langgraph.serializer import to_json

INLINE = 256  # bytes of a value that stands in the checkpoint itself
LARGE = 2_000  # bytes of an input or of a part of a list that does not stand in a segment
INPUT = "__start__"
SLACK = 16  # elements that may be stored in vain before a list is written anew


class Draft:
    """A checkpoint as it comes together: where its values are, and the documents to be put."""

    def __init__(
        self, memory: CheckpointMemory, thread: GraphThread, id: str, serde: SerializerProtocol
    ) -> None:
        self._memory = memory
        self._thread = thread
        self._id = id
        self._serde = serde
        self.values: dict[str, Json] = {}
        self.parts: dict[str, Json] = {}  # of lists, for the segment
        self.puts: dict[str, str] = {}
        self.lists: dict[str, tuple[str, Frozen | None]] = {}  # by channel, with the newest part

    def add_value(self, channel: str, value: Any) -> None:
        plain = to_json(value, self._serde)
        text = encode(plain, "the state")
        # An input is consumed by the next step, so no other checkpoint has it.
        if len(text) <= (LARGE if channel == INPUT else INLINE):
            self.values[channel] = {"json": plain}
        else:
            self.puts[names.value(self._thread.ns, channel, self._id)] = text
            self.values[channel] = {"in": self._id}

    def add_list(self, channel: str, value: list[Any], old: Json | None) -> Plan[None]:
        """By its new part, if it begins as what the parent's checkpoint holds (`old`)."""
        base = None if old is None or "list" not in old else ListRef(*old["list"])
        keep, kept = 0, None
        if base is not None:
            keep, kept = yield from self._common(channel, base, value)
        if base is not None and keep == len(value) == base.length:
            self.values[channel] = {"list": list(base)}
            self.lists[channel] = (base.id, kept)
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
        self.lists[channel] = (self._id, _extended(kept, keep, value))

    def _common(
        self, channel: str, base: ListRef, value: list[Any]
    ) -> Plan[tuple[int, Frozen | None]]:
        """How much of the list is what its parent's checkpoint holds."""
        thread = self._thread
        kept = self._memory.lists.get((thread.entity.id, thread.ns, channel), base.id)
        if kept is not None and len(kept) == base.length:
            try:
                return kept.common(value), kept
            except Opaque:
                pass  # something new can only be compared as stored
        items = yield from list_items(thread, channel, base, ListParts(), self._memory)
        return common_as_stored(items, value, self._serde), None


def _extended(kept: Frozen | None, keep: int, value: list[Any]) -> Frozen | None:
    if kept is None:
        return frozen(value)
    try:
        return kept.extended(keep, value[keep:])
    except Opaque:
        return None
