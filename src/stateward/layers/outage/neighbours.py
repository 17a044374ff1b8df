"""Turns that other processes of this machine keep of the same store, read off their files.

A conversation has one order, whichever process accepts its turns. So a process that is about to
append first brings earlier turns to the store, whichever process spilled them: the store recognises
a turn by its op, and stores it once. No process waits for another, and only its owner writes to a
file.

All processes of a folder read the same few bytes, the stamp, which changes after every change of a
file. While the stamp is unchanged, no other file has to be read: that costs one system call. It is
not mapped into memory: a read of what was cut off meanwhile would end the process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256

from msgspec import Struct

from stateward.files import lock, private_folder
from stateward.layers.outage.spill import (
    NO_LINK,
    SpillRecord,
    abandoned,
    is_private,
    open_ours,
    read_lines,
    records_in,
    writer_of,
)
from stateward.ops import Entity

HALF = 8  # bytes of the stamp: one is changed under a lock, the other where that is not to be had
LOOKS = 20  # in a row, while others write, at most
TIMES_KEPT = 100_000  # of turns that were kept, by op


class NearRecord(Struct, frozen=True):
    """The place of a turn that another process keeps."""

    op: str
    entity: Entity
    at: float
    path: str
    start: int
    end: int


class NearFile:
    """One file: how far it was read, and the records of it that are still needed."""

    def __init__(self) -> None:
        self.read = 0
        self.records: dict[str, NearRecord] = {}
        self.waiting: dict[Entity, dict[str, NearRecord]] = {}  # in the order of the file

    def add(self, record: NearRecord) -> None:
        self.records[record.op] = record
        self.waiting.setdefault(record.entity, {})[record.op] = record

    def forget(self, op: str) -> None:
        record = self.records.pop(op, None)
        if record is not None:
            of_entity = self.waiting[record.entity]
            del of_entity[op]
            if not of_entity:
                del self.waiting[record.entity]


class StampFile:
    """The open file with the stamp, closed when it is no longer referred to."""

    def __init__(self, descriptor: int, identity: tuple[int, int]) -> None:
        self.identity = identity  # device and inode
        self._descriptor = os.dup(descriptor)

    def read(self) -> bytes:
        """Return the stamp; less of it if the file was cut off."""
        try:
            if sys.platform != "win32":
                return os.pread(self._descriptor, 2 * HALF, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)  # a wrong answer costs one look at the files
            return os.read(self._descriptor, 2 * HALF)
        except OSError:
            return b""

    def __del__(self) -> None:
        os.close(self._descriptor)


class Neighbours:
    """The other processes' files of one store. Any thread may call; what blocks, one at a time."""

    def __init__(self, folder: str | None, mark: str, new_id: Callable[[], str]) -> None:
        self._folder = folder
        self._mark = mark
        self._new_id = new_id
        self._lock = threading.Lock()  # over what is in memory; held for moments
        self._files: dict[str, NearFile] = {}
        self._stamp: StampFile | None = None
        self._times: dict[str, float] = {}  # by op, of what was ever kept as far as we saw
        self.seen: bytes | None = b"" if folder is None else None  # the stamp of the last look
        self.count = 0  # of turns that wait elsewhere

    @property
    def stamp(self) -> bytes:
        """The stamp as it is now; empty if there is none."""
        return b"" if self._stamp is None else self._stamp.read()

    def head(self, entity: Entity) -> NearRecord | None:
        """Return the first accepted turn of all that wait elsewhere."""
        return min(self.heads(entity), key=lambda record: record.at, default=None)

    def heads(self, entity: Entity) -> list[NearRecord]:
        """Return the first turn of each process, in the order of its files, whatever its clock."""
        firsts: dict[str, NearRecord] = {}
        with self._lock:
            for path in sorted(self._files):
                waiting = self._files[path].waiting.get(entity)
                if waiting:
                    firsts.setdefault(writer_of(path), next(iter(waiting.values())))
        return list(firsts.values())

    def forget(self, op: str) -> None:
        """Forget a turn that is in the store, or never will be; its owner finds out by itself."""
        with self._lock:
            for file in self._files.values():
                file.forget(op)
            self._recount()

    def accepted(self, op: str) -> float | None:
        """Return when the turn with this op was accepted, if it was ever kept on this machine."""
        return self._times.get(op)

    def note(self, op: str, at: float) -> None:
        """Note when a turn was accepted that is kept, here or elsewhere."""
        with self._lock:
            self._note(op, at)

    def _note(self, op: str, at: float) -> None:
        self._times[op] = at
        if len(self._times) > TIMES_KEPT:
            del self._times[next(iter(self._times))]

    def _recount(self) -> None:
        self.count = sum(len(file.records) for file in self._files.values())

    # --- in files: these block ------------------------------------------------------

    def changed(self) -> None:
        """Change the stamp after a change of our file: before that, no turn counts as kept."""
        if self._folder is not None:
            with suppress(OSError):  # then others find it late, and turns are marked as late
                self._attach(change=True)

    def look(self, ours: Iterable[str]) -> None:
        """Read what is new in all files but these.

        The result is of one moment: any turn in it was written after all that must precede it, and
        if one of those was missed, the stamp has changed meanwhile.
        """
        if self._folder is None:
            return
        for _ in range(LOOKS):
            try:
                self._attach()
                before = self.stamp
                whole = self._read_files(list(ours))
            except OSError:  # no such file here: every process for itself
                before, whole = self.stamp, True
            self.seen = before
            if whole and self.stamp == before:
                return

    def _attach(self, *, change: bool = False) -> None:
        """Open the stamp, though its file may have been removed; and change it."""
        assert self._folder is not None
        private_folder(self._folder)
        account = getattr(os, "geteuid", int)()
        path = os.path.join(self._folder, f".stamp-{account}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
        try:
            status = os.fstat(descriptor)
            if not is_private(status):
                return  # other accounts could hide every change
            if status.st_size < 2 * HALF:
                os.write(descriptor, self._draw() + self._draw())
            identity = status.st_dev, status.st_ino
            if self._stamp is None or self._stamp.identity != identity:
                self._stamp = StampFile(descriptor, identity)
            if change:
                self._change(descriptor)
        finally:
            os.close(descriptor)

    def _change(self, descriptor: int) -> None:
        """Change the stamp; under its lock no other change is overwritten, so ours needs no look.

        No process waits for the lock: its holder may be paused.
        """
        value = self._draw()
        if not lock(descriptor):
            os.lseek(descriptor, HALF, os.SEEK_SET)
            os.write(descriptor, value)
            return
        is_known = self.seen is not None and self.seen[:HALF] == self.stamp[:HALF]
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, value)
        if is_known and self.seen is not None:
            self.seen = value + self.seen[HALF:]

    def _draw(self) -> bytes:
        return sha256(self._new_id().encode()).digest()[:HALF]

    def _read_files(self, ours: list[str]) -> bool:
        """Read all files on. False: one went away, and its turns may stand in another by now."""
        assert self._folder is not None
        whole = True
        paths = list(abandoned(self._folder, self._mark, ours))
        with self._lock:
            self._files = {path: file for path, file in self._files.items() if path in paths}
        for path in paths:
            try:
                self._read_on(path)
            except FileNotFoundError:
                whole = False
        with self._lock:
            self._recount()
        return whole

    def _read_on(self, path: str) -> None:
        descriptor = open_ours(path, os.O_RDONLY)
        if descriptor is None:
            return
        file = self._files.get(path) or NearFile()
        with open(descriptor, "rb") as opened:
            opened.seek(file.read)
            data = opened.read()
        data = data[: data.rfind(b"\n") + 1]  # half a line is still being written
        lines = [
            NearRecord(line.op, line.entity, line.at, path, file.read + start, file.read + end)
            if isinstance(line, SpillRecord)
            else line
            for start, end, line in records_in(data)
        ]
        with self._lock:
            self._files[path] = file
            file.read += len(data)
            for line in lines:
                if isinstance(line, NearRecord):
                    file.add(line)
                    self._note(line.op, line.at)
                elif line is not None:
                    file.forget(line)

    def read(self, place: NearRecord) -> SpillRecord | None:
        """Return the turn itself; None: its owner is done with it."""
        try:
            descriptor = open_ours(place.path, os.O_RDONLY)
            if descriptor is None:
                return None
            with open(descriptor, "rb") as opened:
                opened.seek(place.start)
                data = opened.read(place.end - place.start)
        except OSError:
            return None
        return read_lines(data)[0].get(place.op)
