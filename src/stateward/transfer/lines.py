"""The lines of a backup. `docs/reference/backup-format.md` describes them for other programs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stateward.ops import Entry, Head, Value

FORMAT = 1

Moment = Literal["store", "entity"]  # the part that the backup shows as of one moment


class Line(Struct, frozen=True, tag_field="is", omit_defaults=True):
    """A line: one JSON object, whose member `is` names its type."""


class Header(Line, frozen=True, tag="backup"):
    """The first line."""

    format: int
    namespace: str
    moment: Moment
    engine: str
    engine_version: str
    release: str
    taken_at: str


class EntityLine(Line, frozen=True, tag="entity"):
    """The head of an entity; its documents and entries follow."""

    kind: str
    id: str
    created: float
    updated: float
    commits: int
    owner: str = ""
    status: str = ""
    label: str = ""
    due: float | None = None
    retain: float | None = None
    expires: float | None = None
    version: int = 0
    stamp: str = ""
    base: int = 0
    base_stamp: str = ""
    dropped: float = 0.0
    token: int = 0

    @classmethod
    def of(cls, kind: str, id: str, head: Head) -> EntityLine:
        values = {name: getattr(head, name) for name in cls.__struct_fields__[2:]}
        return cls(kind, id, **values)

    def head(self) -> Head:
        values = {name: getattr(self, name) for name in self.__struct_fields__[2:]}
        return Head(exists=True, **values)


class DocumentLine(Line, frozen=True, tag="document"):
    """A document of the entity above; `value` is its JSON text, as it was stored."""

    name: str
    value: str
    version: int
    stamp: str
    updated: float
    log: int = 0

    @classmethod
    def of(cls, name: str, value: Value) -> DocumentLine:
        return cls(name, value.json, value.version, value.stamp, value.updated, value.log)

    def stored(self) -> Value:
        return Value(self.value, self.version, self.stamp, self.updated, self.log)


class EntryLine(Line, frozen=True, tag="entry"):
    """An entry of the entity above; `body` is its JSON text, and "" if it was removed."""

    seq: int
    at: float
    stamp: str
    body: str = ""
    key: str | None = None
    digest: int | None = None
    note: str | None = None

    @classmethod
    def of(cls, entry: Entry) -> EntryLine:
        own = (entry.key, entry.digest, entry.note)
        return cls(entry.seq, entry.at, entry.stamp, entry.body, *own)

    def stored(self) -> Entry:
        own = (self.key, self.digest, self.note)
        return Entry(self.seq, self.at, self.body, self.stamp, *own)


class End(Line, frozen=True, tag="end"):
    """The last line: the counts of all lines before it."""

    entities: int
    messages: int
    documents: int
    sha256: str  # of every byte of the file before the part that holds this line


AnyLine = Header | EntityLine | DocumentLine | EntryLine | End
Content = EntityLine | DocumentLine | EntryLine
