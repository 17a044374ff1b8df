"""Backup files: JSON lines in gzip members, readable with `gzip -dc`.

Each member holds some whole lines and carries gzip's own checksum. The last one holds the last line
alone and is stored uncompressed, byte for byte as `_stored` writes it; its SHA-256 is over every
byte before it. So a flipped bit anywhere is noticed, and so is a missing or an added end.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec

from stateward.errors import BackupDamaged, DiskProblem, InvalidInput
from stateward.files import WholeFile
from stateward.kinds import REMEMBERING
from stateward.transfer.lines import (
    FORMAT,
    AnyLine,
    Content,
    DocumentLine,
    End,
    EntityLine,
    EntryLine,
    Header,
)

MEMBER = 256 * 1024  # bytes of text in a member, before its last line
# Refuse a member that unpacks to more than this, and to more than `DENSEST` times its own size:
# with such a line it is not compressed.
LARGEST_MEMBER = 24 * 1024 * 1024
DENSEST = 50
LARGE_LINES = (b'{"is":"document"', b'{"is":"entry"')
CHUNK = 64 * 1024
LEVEL = 6
GZIP = 31  # zlib's name for the gzip format
SMALL = 4096  # an upper bound for the size of the last member
HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

_URL = re.compile(r"[a-zA-Z][\w+.-]*:(//|.+@)")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyLine).decode

Advance = Callable[[int], None]  # called with the bytes of the file read so far


class Counts:
    """The counts of a backup's contents. Earlier versions count as part of their documents."""

    def __init__(self) -> None:
        self.entities = self.messages = self.documents = 0
        self._kind = ""

    def add(self, line: Content) -> None:
        if isinstance(line, EntityLine):
            self.entities += 1
            self._kind = line.kind
        elif isinstance(line, DocumentLine):
            self.documents += 1
        elif line.body and self._kind not in REMEMBERING:
            self.messages += 1

    def all(self) -> tuple[int, int, int]:
        return self.entities, self.messages, self.documents


def checked_path(path: str) -> str:
    """Return the path of a file; refuses a URL, which is a mistake and may hold a password."""
    if _URL.match(path):
        raise InvalidInput("FILE must be the path of a backup, not a URL")
    return path


# --- writing ----------------------------------------------------------------------------


class BackupWriter:
    """Writer of one file, which appears complete or not at all, readable by its owner alone."""

    def __init__(self, path: str, header: Header) -> None:
        self._path = path
        self._file = WholeFile(path)
        self._lines = bytearray(_encode(header) + b"\n")
        self._sum = sha256()
        self.counts = Counts()
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Remove the file if the block failed before `finish`."""
        self._file.__exit__(*error)

    def write(self, line: Content) -> None:
        self.counts.add(line)
        self._lines += _encode(line) + b"\n"
        if len(self._lines) >= MEMBER:
            self._flush()

    def finish(self) -> str:
        """Make the file durable, move it to its path, and return its final checksum."""
        self._flush()
        total = self._sum.hexdigest()
        end = End(*self.counts.all(), sha256=total)
        self._put(_stored(_encode(end) + b"\n"))
        try:
            self._file.finish()
        except OSError as error:
            raise self._failed(error) from error
        return total

    def _flush(self) -> None:
        if not self._lines:
            return
        member = zlib.compress(self._lines, LEVEL, GZIP)
        if len(self._lines) > LARGEST_MEMBER and len(self._lines) > DENSEST * len(member):
            member = zlib.compress(self._lines, zlib.Z_NO_COMPRESSION, GZIP)
        self._lines.clear()
        self._sum.update(member)
        self._put(member)

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from error
        self.bytes += len(data)

    def _failed(self, error: OSError) -> DiskProblem:
        return DiskProblem(
            f"{self._path} could not be written: {error.strerror}; free space or choose another "
            "place, then start again. No file was left behind"
        )


def _may_be_large(text: bytearray) -> bool:
    """Return whether the last line of a large member holds what can be that large."""
    start = text.rfind(b"\n", 0, MEMBER) + 1  # a member ends with the line that fills it
    return text.startswith(LARGE_LINES, start)


def _stored(text: bytes | bytearray) -> bytes:
    """Return a gzip member with the text uncompressed, in its only possible form."""
    length = struct.pack("<HH", len(text), len(text) ^ 0xFFFF)
    return HEAD + b"\x01" + length + text + struct.pack("<II", zlib.crc32(text), len(text))


# --- reading ----------------------------------------------------------------------------


class Member(NamedTuple):
    """One gzip member of a file."""

    text: bytearray
    start: int  # its offset in the file
    raw: bytes  # its own bytes, if it is small
    sum_before: str  # SHA-256 of every byte before this member


class BackupFile:
    """Reader of one file, which raises at the first byte that is not as it was written."""

    def __init__(self, path: str) -> None:
        self._path = checked_path(path)
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  # closed by `close`
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        self.size = os.fstat(self._file.fileno()).st_size
        self.end: End | None = None
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BackupFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lines(self, advance: Advance | None = None) -> Iterator[Content]:
        """Yield every line between the first and the last; sets `end` once all is verified."""
        counts = Counts()
        entity: EntityLine | None = None
        last = 0
        members = self._members()
        for member in members:
            for number, line in enumerate(self._decoded(member)):
                if isinstance(line, End):
                    self._check_end(line, number, member, counts)
                    for extra in members:
                        raise self._damaged(extra.start, "something follows its end")
                    self.end = line
                    return
                if isinstance(line, Header):
                    if member.start or number:
                        raise self._damaged(member.start, "it begins twice")
                    continue
                if isinstance(line, EntityLine):
                    if entity is not None and (entity.kind, entity.id) == (line.kind, line.id):
                        raise self._damaged(member.start, "something is in it twice")
                    entity, last = line, 0
                elif entity is None:
                    raise self._damaged(member.start, "something belongs to nothing")
                elif isinstance(line, EntryLine):
                    if not last < line.seq <= entity.version:
                        raise self._damaged(member.start, "its entries are out of order")
                    last = line.seq
                counts.add(line)
                yield line
            if advance is not None:
                advance(self._file.tell())
        raise self._damaged(self.size, "it is cut off: its last line is missing")

    def _read_header(self) -> Header:
        for member in self._members():
            lines = self._decoded(member)
            first = next(lines, None)
            if isinstance(first, Header):
                return first
            break
        raise self._damaged(0, "it does not start like one")

    def _check_end(self, end: End, number: int, member: Member, counts: Counts) -> None:
        if number or member.raw != _stored(member.text) or end.sha256 != member.sum_before:
            raise self._damaged(member.start, "its checksum is wrong")
        if (end.entities, end.messages, end.documents) != counts.all():
            raise self._damaged(member.start, "its contents do not match its header")

    def _decoded(self, member: Member) -> Iterator[AnyLine]:
        if not member.text.endswith(b"\n"):
            raise self._damaged(member.start, "a line is not complete")
        end = 0
        while end < len(member.text):  # no copy is made: a line may be large
            start, end = end, member.text.index(b"\n", end) + 1
            line = memoryview(member.text)[start : end - 1]
            try:
                decoded = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise self._format_error(line, member.start) from error
            if isinstance(decoded, Header) and decoded.format != FORMAT:
                raise self._format_error(line, member.start)
            yield decoded

    def _members(self) -> Iterator[Member]:
        self._file.seek(0)
        total = sha256()
        left = b""
        start = 0
        while left or (left := self._file.read(CHUNK)):
            before = total.hexdigest()
            unpacker = zlib.decompressobj(GZIP)
            text = bytearray()
            raw = bytearray()
            length = 0
            while not unpacker.eof:
                left = left or self._file.read(CHUNK)
                if not left:
                    raise self._damaged(self.size, "it is cut off")
                try:
                    text += unpacker.decompress(left, MEMBER)
                except zlib.error as error:
                    raise self._damaged(start, "it cannot be unpacked") from error
                rest = unpacker.unconsumed_tail or unpacker.unused_data
                used = left[: len(left) - len(rest)]
                left = rest
                total.update(used)
                length += len(used)
                if len(raw) <= SMALL:
                    raw += used
                if len(text) > LARGEST_MEMBER and (
                    len(text) > DENSEST * length or not _may_be_large(text)
                ):
                    raise self._damaged(start, "a part of it is far too large")
            yield Member(text, start, bytes(raw), before)
            start += length

    def _damaged(self, at: int, what: str) -> BackupDamaged:
        return BackupDamaged(
            f"{self._path} is not a complete backup: {what} (near byte {at:,} of {self.size:,}). "
            "Use another copy of it"
        )

    def _format_error(self, line: memoryview, at: int) -> BackupDamaged:
        """Return the error for a file of another format: a newer format is not damage."""
        try:
            head = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            head = None
        number = (
            head.get("format") if isinstance(head, dict) and head.get("is") == "backup" else None
        )
        if isinstance(number, int) and number > FORMAT:
            return BackupDamaged(
                f"{self._path} has the format {number}, which a newer release wrote; this one "
                f"reads up to {FORMAT}. Upgrade: pip install --upgrade stateward"
            )
        return self._damaged(at, "a line cannot be read")
