"""A segment: checkpoints that follow each other, with what their tasks wrote, in one document.

A segment lists its entries in the order in which they came. Of a checkpoint:

    i   its id
    p   its parent; not there: the checkpoint before it in the segment
    t   the template, by its digest or itself
    x   the values of its placeholders

and of what a task wrote:

    of  the number of its checkpoint in the segment, from 0
    k   the task
    t x as above

A template is what the checkpoints of one place in a graph have in common. It stands once in the
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

MESSAGE = "$message"  # names the class of a message in what is stored of it
REF, RAW = "$", "$="
LONG = 20  # characters of a text that is not taken to be the same next time
SAME = 12  # bytes of a value that is worth being named by its number
FEW = 8  # messages that a template has placeholders for, one each

_VERSION = re.compile(r"0*([1-9]\d*\.[0-9a-f]{8})")
_WIDTH = 21  # characters of a version
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")

Json = dict[str, Any]


class Placeholder(NamedTuple):
    """What another checkpoint has something else for, whatever it is."""

    value: Any


class Fixed(NamedTuple):
    """What belongs to the template as it is."""

    value: Any


class TaskWrite(NamedTuple):
    """One pending write, as it is stored."""

    task: str
    path: str
    number: int
    channel: str
    value: Any


class TemplateUse(NamedTuple):
    """A template, and what fills it."""

    digest: str
    text: str
    template: Any
    values: list[Any]


# --- templates --------------------------------------------------------------------------------


def use_of_template(value: Any) -> TemplateUse:
    """Take apart what changes from one checkpoint to another and what does not."""
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
        if kind is dict:  # a key that begins with the sign of a placeholder gets another one
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
    """What is given out must be nobody else's."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value


def of_state(value: Any) -> Any:
    """A value of a graph: a placeholder for each of a few messages, or one for all."""
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
    """A segment as it is written: every change makes another one."""

    __slots__ = ("_entries", "_numbers", "_slots", "first", "ids", "ns", "used", "version", "wrote")

    def __init__(self, ns: str, first: str) -> None:
        self.ns = ns
        self.first = first  # the id by which it is named
        self.version = 0
        self.ids: list[str] = []
        self.used: set[str] = set()  # the digests of templates
        self.wrote: dict[tuple[str, str], int] = {}  # by checkpoint and task: how many writes
        self._entries: list[str] = []  # as text: each is encoded once
        self._numbers: dict[str, int] = {}
        self._slots = 0

    def with_checkpoint(
        self, id: str, parent: str | None, use: TemplateUse, known: bool
    ) -> CheckpointSegment:
        """`known` says that the thread has the template."""
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
        """What is stored."""
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
    """A text in fewer characters, if there are; `near` is the id of the checkpoint."""
    if len(text) == _WIDTH and (found := _VERSION.fullmatch(text)):
        return f"#{found[1]}"
    if _UUID.fullmatch(text):
        return "#u" + urlsafe_b64encode(bytes.fromhex(text.replace("-", ""))).decode()[:22]
    if _TIME.fullmatch(text) and (begin := names.ticks_of(near)) is not None:
        try:
            after = datetime.fromisoformat(text) - names.time_of(begin)
        except ValueError:  # no such time
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


@lru_cache(maxsize=10_000)  # a conversation is read again in every turn
def _uuid_of(short: str) -> str:
    plain = urlsafe_b64decode(short[2:] + "==").hex()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def templates_of(stored: Json) -> set[str]:
    """The digests of the templates that a document needs."""
    return {entry["t"] for entry in stored["c"] if type(entry["t"]) is str}


class SegmentSlots:
    """The values of a segment by their numbers; each is spelled out when it is asked for."""

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
        """The id of the checkpoint that a value belongs to."""
        return self[max(entry.first for entry in self.entries if entry.first <= number)]

    def filled(self, template: Any, start: int) -> Any:
        """A template with the values from that number on. Parts may be shared: copy them."""
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
    """One entry, and the numbers of what stands first in it and of what fills its template."""

    said: Json
    first: int
    start: int

    def template(self, templates: Mapping[str, Any]) -> Any:
        template = self.said["t"]
        return templates[template] if type(template) is str else template


def ids_of(stored: Json) -> list[str]:
    """The checkpoints of a document."""
    slots = SegmentSlots(stored)
    return [slots[each.first] for each in slots.entries if "i" in each.said]


def records_of(stored: Json, templates: Mapping[str, Any]) -> list[Json]:
    """The checkpoints of a document with what their tasks wrote; copy what is given out."""
    records: list[Json] = []
    slots = SegmentSlots(stored)
    for entry in slots.entries:
        said = entry.said
        filled = slots.filled(entry.template(templates), entry.start)
        if "of" in said:
            ((path, written),) = filled.items()
            for number, ((channel, value),) in enumerate(map(dict.items, written)):
                write = TaskWrite(slots[entry.first], path, number, channel, value)
                records[said["of"]]["writes"].append(write)
            continue
        id = slots[entry.first]
        parent = slots[entry.first + 1] if "p" in said else records[-1]["id"]
        filled |= {"id": id, "ns": stored.get("ns", ""), "parent": parent, "writes": []}
        records.append(filled)
    return records


def parts_of(stored: Json, templates: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """The new parts of lists: checkpoint, channel and part; copy what is given out."""
    slots = SegmentSlots(stored)
    for entry in slots.entries:
        if "i" not in entry.said:
            continue
        for channel, where in entry.template(templates)["values"].items():
            if "new" in where:
                part = slots.filled(where["new"], entry.start)
                yield slots[entry.first], channel[1:] if channel[:1] == REF else channel, part


def use_of_writes(path: str, writes: Iterable[tuple[str, Any]]) -> TemplateUse:
    """What a task wrote, in the order of its numbers."""
    return use_of_template({path: [{channel: of_state(value)} for channel, value in writes]})
