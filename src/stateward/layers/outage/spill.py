"""The local file that keeps what the store could not take.

One line a record: a checksum, a space, JSON. A process that is killed may leave half a line at the
end, and a disk may damage one anywhere: such lines are left out, all others count. What has reached
the store is marked by a line of its own, and a file of which nothing is left is removed.

A file belongs to the process that holds its lock. The lock ends with its process, in whatever way,
and then any process may adopt the file.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from zlib import crc32

import msgspec
from msgspec import Struct

from stateward.engine import GRACE
from stateward.errors import InvalidInput
from stateward.files import lock, open_to_others, private_folder
from stateward.ops import Entity

logger = logging.getLogger("stateward.spill")

FORMAT = 1
SUFFIX = ".spill"
REFUSED = ".refused"  # of a file with a turn that the store refuses; renamed, it is replayed
REFUSED_SECONDS = 7 * GRACE  # then it is removed
ENV = "STATEWARD_SPILL"
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class Spill(Struct, frozen=True):
    """Where and how much is kept locally while the store is down.

    `path` is a directory (None: only in memory, which does not survive the process). `max_bytes`
    bounds what one process keeps; what does not fit is dropped. Turns older than `max_age` seconds
    are not replayed: at most a day, because the store remembers deletions for that long.
    """

    path: str | None = None
    max_bytes: int = 64 << 20
    max_age: float = GRACE

    def __post_init__(self) -> None:
        if self.path is not None and (type(self.path) is not str or not self.path):
            raise InvalidInput(f"Spill.path is the path of a directory, not {self.path!r}")
        if type(self.max_bytes) is not int or self.max_bytes < 1:
            raise InvalidInput(
                f"Spill.max_bytes is a whole number of bytes above 0, not {self.max_bytes!r}"
            )
        if type(self.max_age) not in (int, float) or not 0 < self.max_age <= GRACE:
            raise InvalidInput(
                f"Spill.max_age is in seconds, above 0 and at most {GRACE:g}: that long the store "
                f"remembers deletions; {self.max_age!r} is not"
            )


def chosen_spill(spill: Spill | str | os.PathLike[str] | bool | None) -> Spill | None:
    """Return the meaning of the argument `spill` of `open`; None: nothing is spilled."""
    if spill is True:
        spill = Spill(default_directory())
    if spill is None or spill is False:
        return None
    if isinstance(spill, str | os.PathLike):
        spill = Spill(os.fspath(spill))
    if isinstance(spill, Spill):
        danger = None if spill.path is None else open_to_others(spill.path)
        if danger is not None:
            raise InvalidInput(
                f"{spill.path!r} {danger[0]}, so its contents may be forged or removed: "
                f"{danger[1]}, or name a new directory for spill= (or {ENV})"
            )
        return spill
    raise InvalidInput(
        f"spill is a directory, a Spill, or False to keep nothing locally, not {spill!r}"
    )


def default_directory() -> str:
    """Return where a user's programs keep their state on this platform."""
    named = os.environ.get(ENV)
    if named:
        return named
    join, home = os.path.join, os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = join(home, "Library", "Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME") or join(home, ".local", "state")
    return join(base, "stateward", "spill")


class SpillRecord(Struct, frozen=True, array_like=True):
    """One append that the store could not take."""

    op: str
    entity: Entity
    bodies: tuple[str, ...]
    at: float  # seconds since the epoch by this machine's clock
    owner: str | None = None
    key: str | None = None
    retain: float | None = None
    correlation: str | None = None
    takes_first: bool = False
    note: str | None = None
    undropped: float | None = None  # not stored if its thread was dropped since, by that clock
    asked: dict[str, int] | None = None  # see `asked.moved_by`; None: no question waits for it


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SpillRecord)


def line_of(record: SpillRecord) -> bytes:
    return _line(_encoder.encode(record))


def done_line(op: str) -> bytes:
    """Return the line that marks the record with this op as done."""
    return _line(_encoder.encode(op))


def _line(text: bytes) -> bytes:
    return b"%08x %s\n" % (crc32(text), text)


def records_in(data: bytes) -> Iterator[tuple[int, int, SpillRecord | str | None]]:
    """Yield the place and content of each line: a record, the op of a done one, None: damaged."""
    start = 0
    for line in data.split(b"\n"):
        end = start + len(line)
        if line:
            try:
                entry = _read_line(line)
            except (ValueError, msgspec.MsgspecError):  # or whole, but of another release
                yield start, end, None
            else:
                if entry is not None:
                    yield start, end, entry
        start = end + 1


def _read_line(line: bytes) -> SpillRecord | str | None:
    """Decode a line; None if it is a header. Raises if it is damaged."""
    text = line[9:]
    if int(line[:8], 16) != crc32(text) or line[8:9] != b" ":
        raise ValueError("its checksum is another")
    if text.startswith(b'"'):
        return msgspec.json.decode(text, type=str)
    return _decoder.decode(text) if text.startswith(b"[") else None


def read_lines(data: bytes) -> tuple[dict[str, SpillRecord], int]:
    """Return the records still needed, in order and by op, and how many lines are damaged.

    Half a line at the end is what a killed process leaves, and counts as damaged too.
    """
    records: dict[str, SpillRecord] = {}
    damaged = 0
    for _, _, entry in records_in(data):
        if entry is None:
            damaged += 1
        elif isinstance(entry, str):
            records.pop(entry, None)
        else:
            records[entry.op] = entry
    return records, damaged


def digest(place: str, namespace: str) -> str:
    """Return the part of a file's name that tells the store, without naming it."""
    return sha256(f"{place}\n{namespace}".encode()).hexdigest()[:24]


def writer_of(path: str) -> str:
    """Return the writer of a file: its name without the number that orders a writer's files."""
    return os.path.basename(path).rpartition("-")[0]


class SpillFile:
    """One open and locked file. Every method may block; callers see to it that one runs at a time.

    Methods raise `OSError` if the disk does not do it.
    """

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size
        self._descriptor = descriptor
        self._torn = False
        _open_files.add(self)

    @classmethod
    def create(cls, directory: str, name: str, header: dict[str, str]) -> SpillFile:
        """Create a file that its owner alone can read."""
        private_folder(directory)
        path = os.path.join(directory, name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        file = cls(path, descriptor, 0)
        try:
            if not lock(descriptor):
                raise OSError(f"{path} is locked though it is new")
            file.write(_line(_encoder.encode(header | {"stateward_spill": FORMAT})))
            _sync_directory(directory)
        except OSError:
            file.remove()
            raise
        return file

    @classmethod
    def adopt(cls, path: str) -> tuple[SpillFile, bytes] | None:
        """Take a file whose owner has ended, with its contents; None: it has an owner.

        None also for what another account wrote, or may have written: it would go into any thread.
        """
        try:
            descriptor = open_ours(path, os.O_RDWR)
        except FileNotFoundError:
            return None  # its owner, or a process that adopted it, is done with it
        if descriptor is None:
            return None
        try:
            # Between opening and locking it may have been removed by its owner.
            if not lock(descriptor) or os.fstat(descriptor).st_nlink == 0:
                os.close(descriptor)
                return None
            with open(descriptor, "rb", closefd=False) as whole:
                data = whole.read()
        except OSError:
            os.close(descriptor)
            raise
        file = cls(path, descriptor, len(data))
        file._torn = not data.endswith(b"\n")
        return file, data

    def write(self, data: bytes, *, sync: bool = True) -> None:
        """Add to the end; with `sync`, it is on the disk when this returns."""
        if self._torn:
            data = b"\n" + data  # what was cut off must not spoil the next line
        self._torn = True
        os.lseek(self._descriptor, 0, os.SEEK_END)
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self.size += written
            view = view[written:]
        self._torn = False
        if sync:
            os.fsync(self._descriptor)

    def remove(self) -> None:
        """Delete the file and give up its lock."""
        try:
            os.unlink(self.path)
        finally:
            self.close()

    def close(self) -> None:
        """Give up the lock: from here on, any process may adopt the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def open_ours(path: str, flags: int) -> int | None:
    """Open a file; None if another account wrote it, or may have."""
    try:
        descriptor = os.open(path, flags | NO_LINK)
    except FileNotFoundError:
        raise
    except OSError:
        if not _is_ours(os.lstat(path), path):
            return None
        raise
    if _is_ours(os.fstat(descriptor), path):
        return descriptor
    os.close(descriptor)
    return None


_refused: set[str] = set()  # files that were complained of


def _is_ours(status: os.stat_result, path: str) -> bool:
    """Return whether this account wrote the file, and no one else could; if not, log it once."""
    if is_private(status):
        return True
    if path not in _refused:
        _refused.add(path)
        logger.warning("spill_refused", extra={"file": path, "uid": status.st_uid})
    return False


def is_private(status: os.stat_result) -> bool:
    """Return whether this is a file of this account that no one else may write."""
    if sys.platform == "win32":
        return True
    others = stat.S_IWGRP | stat.S_IWOTH
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and not status.st_mode & others


def abandoned(directory: str, mark: str, but: Sequence[str], suffix: str = SUFFIX) -> Iterator[str]:
    """Yield the paths of this store's files, except these; a lock tells if a file has an owner."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if name.startswith(mark) and name.endswith(suffix) and path not in but:
            yield path


def count_refused(directory: str, mark: str, before: float) -> int:
    """Return how many turns of this store were set aside; remove those set aside before then."""
    count = 0
    for path in list(abandoned(directory, mark, (), REFUSED)):
        with suppress(FileNotFoundError):
            if os.stat(path).st_mtime < before:
                os.unlink(path)
            else:
                count += 1
    return count


def stores_in(directory: str) -> list[str]:
    """Return the stores whose files lie here, by the names that their writers used."""
    stores = set()
    for path in abandoned(directory, "", ()):
        with open(path, "rb") as file:
            line = file.readline()
        try:
            header = msgspec.json.decode(line[9:], type=dict[str, msgspec.Raw])
            stores.add(msgspec.json.decode(header["store"], type=str))
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
            continue  # half a line: its process was killed before it kept anything
    return sorted(stores)


# --- what is open -----------------------------------------------------------------------


def _sync_directory(directory: str) -> None:
    """Make the new file's name durable too."""
    if sys.platform == "win32":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_open_files: weakref.WeakSet[SpillFile] = weakref.WeakSet()


def _forked() -> None:
    """A child shares its parent's locks: kept, they would outlive the parent."""
    for file in list(_open_files):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
