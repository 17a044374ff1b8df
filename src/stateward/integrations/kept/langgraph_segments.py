"""A segment: successive checkpoints and the writes of their tasks, in one document.

A segment lists its entries in the order in which they came. Of a checkpoint:

    i   its id
    p   its parent; not there: the checkpoint before it in the segment
    t   the template, by its digest or itself
    x   the values of its placeholders

and of the writes of a task:

    of  the number of its checkpoint in the segment, from 0
    k   the task
    t x as above

A template is the common part of the checkpoints of one place in a graph, stored once in the
thread (`t/DIGEST`), and `{"$": n}` in it is a placeholder. In an entry, `{"$": n}` is the value
that stands in the segment already, n-th of all ids, tasks and values. A text that begins with `#`
is a short one: of a channel's version (`#7.89abcdef`) without its leading zeros, of a UUID (`#u`)
in base64, of a time (`#@`) in microseconds after that in the checkpoint's own id.
`{"$=": value}` is a value that looks like any of these.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from stateward.codec import encode
from stateward.integrations.kept import langgraph_names as names

MESSAGE = "$message"  # the key of a stored message that names its class
REF, RAW = "$", "$="
LONG = 20  # longer texts are assumed to differ between checkpoints
SAME = 12  # bytes from which on a value is referred to by its number
FEW = 8  # messages of a template that have placeholders of their own

_VERSION = re.compile(r"0*([1-9]\d*\.[0-9a-f]{8})")
_WIDTH = 21  # characters of a version
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")

Json = dict[str, Any]


class Placeholder(NamedTuple):
    """A value that differs from one checkpoint to another."""

    value: Any


class Fixed(NamedTuple):
    """A value that is part of the template."""

    value: Any


class TaskWrite(NamedTuple):
    """One pending write in its stored form."""

    task: str
    path: str
    number: int
    channel: str
    value: Any


class TemplateUse(NamedTuple):
    """A template, and the values of its placeholders."""

    digest: str
    text: str
    template: Any
    values: list[Any]


# --- templates --------------------------------------------------------------------------------


def use_of_template(value: Any) -> TemplateUse:
    """Separate the values that change between checkpoints from the template."""
    values: list[Any] = []
    numbers: dict[str, int] = {}

    def placeholder(value: Any) -> Json:
        if type(value) is not str or len(value) < LONG:
            values.append(value)
            return {REF: len(values) - 1}
        if value not in numbers:
            numbers[value] = len(values)
            values.append(value)
        return {REF: numbers[value]}

    def walk(value: Any) -> Any:
        kind = type(value)
        if kind is Fixed:
            return value.value
        if kind is Placeholder:
            return placeholder(value.value)
        if kind is str:
            return value if len(value) < LONG else placeholder(value)
        if kind is bool or value is None:
            return value
        if kind is dict:  # escape a key that begins with the sign of a placeholder
            return {
                f"{REF}{key}" if key.startswith(REF) else key: walk(item)
                for key, item in value.items()
            }
        if kind is list:
            return [walk(item) for item in value]
        return placeholder(value)

    template = walk(value)
    text = encode(template, "the template")
    digest = urlsafe_b64encode(blake2b(text.encode(), digest_size=6).digest()).decode()
    return TemplateUse(digest, text, template, values)


def copied(value: Any) -> Any:
    """Return a copy that shares no container with the value."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value


def of_state(value: Any) -> Any:
    """Return a graph's value with a placeholder for each of a few messages, or one for all."""
    if _is_messages(value):
        return [Placeholder(item) for item in value]
    if type(value) is dict and any(map(_is_messages, value.values())):
        return {key: of_state(item) for key, item in value.items()}
    return Placeholder(value) if value is not None else None


def _is_messages(value: Any) -> bool:
    return (
        type(value) is list
        and 0 < len(value) <= FEW
        and all(type(item) is dict and MESSAGE in item for item in value)
    )


# --- segments -------------------------------------------------------------------------------


class CheckpointSegment:
    """A segment as it is written: every addition returns a new one."""

    __slots__ = ("_entries", "_numbers", "_slots", "first", "ids", "ns", "used", "version", "wrote")

    def __init__(self, ns: str, first: str) -> None:
        self.ns = ns
        self.first = first  # the id by which it is named
        self.version = 0
        self.ids: list[str] = []
        self.used: set[str] = set()  # the digests of templates
        self.wrote: dict[tuple[str, str], int] = {}  # number of writes, by checkpoint and task
        self._entries: list[str] = []  # JSON texts of the entries, each encoded once
        self._numbers: dict[str, int] = {}
        self._slots = 0

    def with_checkpoint(
        self, id: str, parent: str | None, use: TemplateUse, known: bool
    ) -> CheckpointSegment:
        """Return a segment with one more checkpoint; `known`: the thread has its template."""
        new = self._copy()
        entry = {"i": new._coded(id)}
        if not self.ids or self.ids[-1] != parent:
            entry["p"] = new._coded(parent)
        new._add(entry, use, known, id)
        new.ids.append(id)
        return new

    def with_writes(self, id: str, task: str, use: TemplateUse, known: bool) -> CheckpointSegment:
        ((_, writes),) = use.template.items()
        new = self._copy()
        new._add({"of": self.ids.index(id), "k": new._coded(task)}, use, known)
        new.wrote[id, task] = len(writes)
        return new

    def _copy(self) -> CheckpointSegment:
        new = CheckpointSegment(self.ns, self.first)
        new.version = self.version
        new.ids = [*self.ids]
        new.used = {*self.used}
        new.wrote = {**self.wrote}
        new._entries = [*self._entries]
        new._numbers = {**self._numbers}
        new._slots = self._slots
        return new

    def _add(self, entry: Json, use: TemplateUse, known: bool, near: str = "") -> None:
        template = use.digest if known else use.template
        entry |= {"t": template, "x": [self._coded(value, near) for value in use.values]}
        self._entries.append(encode(entry, "the checkpoints"))
        if known:
            self.used.add(use.digest)

    @property
    def text(self) -> str:
        """Return the text of the document."""
        ns = f'"ns":{encode(self.ns, "the namespace")},' if self.ns else ""
        return f'{{{ns}"c":[{",".join(self._entries)}]}}'

    def _coded(self, value: Any, near: str = "") -> Any:
        number, self._slots = self._slots, self._slots + 1
        kind = type(value)
        if kind is str or kind is dict or kind is list:
            text = f'"{value}"' if kind is str else encode(value, "the state")
            if len(text) >= SAME and (there := self._numbers.setdefault(text, number)) != number:
                return {REF: there}
        if kind is str:
            short = _shortened(value, near)
            return {RAW: value} if short == value and value.startswith("#") else short
        if kind is dict and (REF in value or RAW in value):
            return {RAW: value}
        return value


def _shortened(text: str, near: str) -> str:
    """Return a text in its short form, if any; `near` is the id of the checkpoint."""
    if len(text) == _WIDTH and (match := _VERSION.fullmatch(text)):
        return f"#{match[1]}"
    if _UUID.fullmatch(text):
        return "#u" + urlsafe_b64encode(bytes.fromhex(text.replace("-", ""))).decode()[:22]
    if _TIME.fullmatch(text) and (begin := names.ticks_of(near)) is not None:
        try:
            after = datetime.fromisoformat(text) - names.time_of(begin)
        except ValueError:  # not a valid time
            return text
        short = f"#@{after // timedelta(microseconds=1)}"
        if _lengthened(short, near) == text:
            return short
    return text


def _lengthened(short: str, near: str) -> str:
    if short.startswith("#u"):
        return _uuid_of(short)
    if short.startswith("#@"):
        begin = names.ticks_of(near)
        assert begin is not None
        return (names.time_of(begin) + timedelta(microseconds=int(short[2:]))).isoformat()
    return short[1:].rjust(_WIDTH, "0")


@lru_cache(maxsize=10_000)  # cached, because every turn reads the conversation again
def _uuid_of(short: str) -> str:
    plain = urlsafe_b64decode(short[2:] + "==").hex()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def templates_of(stored: Json) -> set[str]:
    """Return the digests of the templates that a document needs."""
    return {entry["t"] for entry in stored["c"] if type(entry["t"]) is str}


class SegmentSlots:
    """The values of a segment by their numbers, each expanded at its first use."""

    def __init__(self, stored: Json) -> None:
        self._raw = raw = list[Any]()
        self.entries: list[SegmentEntry] = []
        for entry in stored["c"]:
            first = len(raw)
            raw.append(entry["k"] if "k" in entry else entry["i"])
            if "p" in entry:
                raw.append(entry["p"])
            self.entries.append(SegmentEntry(entry, first, len(raw)))
            raw += entry["x"]

    def __getitem__(self, number: int) -> Any:
        value = self._raw[number]
        kind = type(value)
        if kind is dict:
            if REF in value:
                return self[value[REF]]
            return value.get(RAW, value)
        if kind is str and value[:1] == "#":
            return _lengthened(value, self._id_at(number) if value[1] == "@" else "")
        return value

    def _id_at(self, number: int) -> Any:
        """Return the id of the checkpoint that a value belongs to."""
        return self[max(entry.first for entry in self.entries if entry.first <= number)]

    def filled(self, template: Any, start: int) -> Any:
        """Fill a template with the values from a number on. Parts may be shared: copy them."""
        if type(template) is dict:
            if REF in template:
                return self[start + template[REF]]
            return {
                key[1:] if key[:1] == REF else key: self.filled(item, start)
                for key, item in template.items()
            }
        if type(template) is list:
            return [self.filled(item, start) for item in template]
        return template


class SegmentEntry(NamedTuple):
    """One entry, with the numbers of its own first value and of its template's first one."""

    stored: Json
    first: int
    start: int

    def template(self, templates: Mapping[str, Any]) -> Any:
        template = self.stored["t"]
        return templates[template] if type(template) is str else template


def ids_of(stored: Json) -> list[str]:
    """Return the ids of the checkpoints of a document."""
    slots = SegmentSlots(stored)
    return [slots[each.first] for each in slots.entries if "i" in each.stored]


def records_of(stored: Json, templates: Mapping[str, Any]) -> list[Json]:
    """Return a document's checkpoints with the writes of their tasks; copy before changing."""
    records: list[Json] = []
    slots = SegmentSlots(stored)
    for entry in slots.entries:
        stored_entry = entry.stored
        filled = slots.filled(entry.template(templates), entry.start)
        if "of" in stored_entry:
            ((path, written),) = filled.items()
            for number, ((channel, value),) in enumerate(map(dict.items, written)):
                write = TaskWrite(slots[entry.first], path, number, channel, value)
                records[stored_entry["of"]]["writes"].append(write)
            continue
        id = slots[entry.first]
        parent = slots[entry.first + 1] if "p" in stored_entry else records[-1]["id"]
        filled |= {"id": id, "ns": stored.get("ns", ""), "parent": parent, "writes": []}
        records.append(filled)
    return records


def parts_of(stored: Json, templates: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """Yield the new parts of lists: checkpoint, channel and part; copy before changing."""
    slots = SegmentSlots(stored)
    for entry in slots.entries:
        if "i" not in entry.stored:
            continue
        for channel, where in entry.template(templates)["values"].items():
            if "new" in where:
                part = slots.filled(where["new"], entry.start)
                yield slots[entry.first], channel[1:] if channel[:1] == REF else channel, part


def use_of_writes(path: str, writes: Iterable[tuple[str, Any]]) -> TemplateUse:
    """Return the template use of a task's writes, in the order of their numbers."""
    return use_of_template({path: [{channel: of_state(value)} for channel, value in writes]})
