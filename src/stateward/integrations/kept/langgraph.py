"""The LangGraph adapter's storage: a thread's checkpoints are documents of one entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from stateward.codec import decode
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept import langgraph_segments as segments
from stateward.ops import Entity, Head, Value

MESSAGE = segments.MESSAGE
MESSAGES = "messages"  # the usual channel of a graph's conversation

Fetched = Callable[..., Mapping[str, Value]]


class StoredMessage(Struct, frozen=True):
    """A stored message of a graph: its place, and the time of its checkpoint."""

    number: int  # from 1
    message: dict[str, Any]
    at: float


def thread(entity: Entity, head: Head) -> str:
    return f"LangGraph thread {entity.id}"


def item(entity: Entity, head: Head) -> str:
    labels, _, key = entity.id.partition("=")
    space = "/".join(_plain(label) for label in labels.split("/")[:-1])
    return f"item {_plain(key)} in {space or 'the root'} of LangGraph's store"


def _plain(text: str) -> str:
    return text.replace("%3D", "=").replace("%2F", "/").replace("%25", "%")


def item_document(name: str) -> str | None:
    return {"item": "the item", "vectors": "what it is found by"}.get(name)


def document(name: str) -> str | None:
    if name == names.COPY:
        return "of which thread this is to be a copy"
    kind, *parts = (unquote(part) for part in name.split("/"))
    if kind == "h" and len(parts) == 1:
        return f"which checkpoint was put last{_within(parts[0])}"
    if kind == "r" and len(parts) == 1:
        return f"mark of the run {parts[0]}"
    if kind == "c" and len(parts) == 2:
        return f"checkpoints from {names.beginning(parts[1])} on{_within(parts[0])}"
    if kind == "t" and len(parts) == 1:
        return "what checkpoints have in common"
    if kind in ("v", "l") and len(parts) == 3:
        what = "value of the channel" if kind == "v" else "new part of the list"
        return f"{what} {parts[1]}, of checkpoint {parts[2]}{_within(parts[0])}"
    if kind == "w" and len(parts) == 4:
        return f"write of the task {parts[2]}, after checkpoint {parts[1]}{_within(parts[0])}"
    return None


def _within(ns: str) -> str:
    return f" in {ns}" if ns else ""


def checkpoints(documents: Mapping[str, Value]) -> Iterator[dict[str, Any]]:
    """Return the checkpoints among a thread's documents, oldest first in each namespace."""
    templates = {
        name.removeprefix("t/"): decode(value.json)
        for name, value in documents.items()
        if name.startswith("t/")
    }
    for name, value in documents.items():
        if not name.startswith("c/"):
            continue
        for stored in segments.records_of(decode(value.json), templates):
            metadata = stored["metadata"] if isinstance(stored["metadata"], dict) else {}
            begin = names.writes(stored["ns"], stored["id"])
            alone = sum(other.startswith(begin) for other in documents)
            yield {
                "checkpoint": stored["id"],
                "ns": stored["ns"] or None,
                "parent": stored["parent"],
                "step": metadata.get("step"),
                "source": metadata.get("source"),
                "channels": ", ".join(_channel(*each) for each in sorted(stored["values"].items())),
                "writes": alone + len(stored.get("writes", ())),
                "at": value.updated,
            }


def _channel(name: str, value: Mapping[str, Any]) -> str:
    length = value["list"][1] if "list" in value else None
    if "new" in value:
        length = value["new"]["keep"] + len(value["new"]["items"])
    if isinstance(value.get("json"), list):
        length = len(value["json"])
    return name if length is None else f"{name} ({length})"


def messages(fetch: Fetched, last: int, upto: int | None = None) -> tuple[int, list[StoredMessage]]:
    """Return the number of messages of the newest checkpoint, and the last ones up to a place.

    `fetch` gives documents by their names.
    """
    newest = fetch(names.head("")).get(names.head(""))
    if newest is None:
        return 0, []
    head, stored = decode(newest.json), SegmentReader(fetch)
    segment = head.get("in") or names.segment(head["id"])
    put = fetch(names.checkpoints("") + segment).get(names.checkpoints("") + segment)
    where = stored.record(segment, head["id"])["values"].get(MESSAGES, {})
    if "new" in where:
        length = where["new"]["keep"] + len(where["new"]["items"])
        where = {"list": [head["id"], length, 0, segment]}
    if "list" in where:
        id, total, _, *within = where["list"]
        end = total if upto is None else min(upto, total)
        first = within[0] if within else None
        stored_messages = _of_parts(stored, id, first, total, max(0, end - last))
    else:
        if "in" in where:
            name = names.value("", MESSAGES, where["in"])
            put = fetch(name).get(name)
            where = {} if put is None else {"json": decode(put.json)}
        items = where.get("json", [])
        stored_messages = _stored(items if isinstance(items, list) else [], 0, put)
        total = len(stored_messages)
        end = total if upto is None else min(upto, total)
    return total, [each for each in stored_messages if each.number <= end][-last:]


class SegmentReader:
    """Reader of checkpoints of the root namespace, which fetches each document once."""

    def __init__(self, fetch: Fetched) -> None:
        self._fetch = fetch
        self._templates: dict[str, Any] = {}
        self._read: dict[str, tuple[Value | None, list[dict[str, Any]]]] = {}

    def record(self, segment: str, id: str) -> dict[str, Any]:
        """Return a checkpoint; an empty one if the checkpoint is gone."""
        _, records = self._records(segment)
        matching = [record for record in records if record["id"] == id]
        return matching[0] if matching else {"values": {}}

    def part(self, segment: str | None, id: str) -> tuple[dict[str, Any], Value] | None:
        """Return the part of the conversation that a checkpoint added."""
        if segment is not None:
            value, _ = self._records(segment)
            where = self.record(segment, id)["values"].get(MESSAGES, {})
            if value is not None and "new" in where:
                return where["new"], value
        name = names.lists("", MESSAGES) + names.part(id)
        alone = self._fetch(name).get(name)
        return None if alone is None else (decode(alone.json), alone)

    def _records(self, segment: str) -> tuple[Value | None, list[dict[str, Any]]]:
        if segment not in self._read:
            name = names.checkpoints("") + segment
            value = self._fetch(name).get(name)
            stored = {"c": []} if value is None else decode(value.json)
            wanted = segments.templates_of(stored) - self._templates.keys()
            there = self._fetch(*map(names.template, wanted)) if wanted else {}
            if len(there) < len(wanted):  # the thread is being deleted
                value, stored = None, {"c": []}
            else:
                self._templates |= {
                    each: decode(there[names.template(each)].json) for each in wanted
                }
            self._read[segment] = (value, segments.records_of(stored, self._templates))
        return self._read[segment]


def _of_parts(
    stored: SegmentReader, id: str | None, segment: str | None, length: int, start: int
) -> list[StoredMessage]:
    """Return a list from `start` on, joined from its parts, which are read newest first."""
    pieces: list[list[StoredMessage]] = []
    while id is not None and length > start:
        read = stored.part(segment, id)
        if read is None:
            break  # the part was pruned in the meantime
        part, value = read
        keep = min(length, part["keep"])
        pieces.append(_stored(part["items"][: length - keep], keep, value))
        length, id, segment = keep, part["base"], part.get("segment")
    return [each for piece in reversed(pieces) for each in piece]


def _stored(items: list[Any], before: int, value: Value | None) -> list[StoredMessage]:
    at = 0.0 if value is None else value.updated
    numbered = enumerate(items, before + 1)
    return [StoredMessage(number, each, at) for number, each in numbered if isinstance(each, dict)]
