"""Records of document writes, as entries of the entity's log. No I/O.

Every write of a user's or shared document appends a record to its entity's log, in the same
commit: the document's name and its new value. The engine gives the entry its number, its time and
the stamp that the document's new version has, too. A writer that has read the document before it
writes also records the version, so that writes of others who keep no history are noticed.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from stateward.codec import encode
from stateward.errors import SchemaError
from stateward.ops import Entry, Fetched


class RecordBody(Struct, frozen=True):
    """The body of a record. A record that was moved also has its original time and stamp."""

    document: str
    version: int | None = None
    after: str | None = None
    at: float | None = None
    stamp: str | None = None
    value: msgspec.Raw = msgspec.Raw()


class DocumentRecord(Struct, frozen=True):
    """One write of a document: its new value, or None if it was removed."""

    seq: int
    document: str
    json: str | None
    version: int | None  # where the writer knew it
    after: str | None  # the stamp of the version before, where the writer had read it
    at: float
    stamp: str

    @property
    def moved(self) -> str:
        """The body of the same record at another place of the log."""
        origin = (self.at, self.stamp)
        return record_body(self.document, self.json, self.version, self.after, origin)


_decoder = msgspec.json.Decoder(RecordBody)


def record_body(
    name: str,
    text: str | None,
    version: int | None = None,
    after: str | None = None,
    origin: tuple[float, str] | None = None,
) -> str:
    """Return the body of a record. `origin` is its time and stamp if they are not the entry's."""
    optional = "" if version is None else f',"version":{version}'
    if after is not None:
        optional += f',"after":{encode(after, "a stamp")}'
    if origin is not None:
        optional += f',"at":{origin[0]!r},"stamp":{encode(origin[1], "a stamp")}'
    value = "" if text is None else f',"value":{text}'
    return f'{{"document":{encode(name, "a name")}{optional}{value}}}'


def read_record(entry: Entry) -> DocumentRecord:
    """Return the record that an entry of such a log holds."""
    try:
        body = _decoder.decode(entry.body)
    except msgspec.DecodeError as error:
        raise SchemaError(
            f"the entry {entry.seq} is not a record of a document's history ({error}): the store "
            "is damaged or was changed by something else; restore it from a backup"
        ) from error
    return DocumentRecord(
        entry.seq,
        body.document,
        bytes(body.value).decode() or None,
        body.version,
        body.after,
        entry.at if body.at is None else body.at,
        entry.stamp if body.stamp is None else body.stamp,
    )


def bare_records(fetched: Fetched) -> list[DocumentRecord]:
    """Return the records of adjacent entries that were read without details.

    Their time is infinite and their stamp empty.
    """
    bodies = fetched.lines.split("\n") if fetched.lines else []
    numbered = enumerate(bodies, fetched.first)
    return [read_record(Entry(seq, float("inf"), body, "")) for seq, body in numbered]
