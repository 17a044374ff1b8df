"""Files: written completely or not at all, locked, and read as TOML."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Any, Self

from stateward.errors import InvalidInput


def private_folder(path: str) -> None:
    """Create a folder and its missing parents, for this account alone."""
    missing = []
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            os.mkdir(folder, 0o700)


def is_open_to_all(directory: str) -> bool:
    """Whether every account of this machine may put files there."""
    if sys.platform == "win32":
        return False
    try:
        return bool(os.stat(directory).st_mode & stat.S_IWOTH)
    except OSError:
        return False  # missing or unreadable: using it raises the error


def open_to_others(directory: str) -> tuple[str, str] | None:
    """Return why accounts other than this one and root may write there, and the remedy."""
    if sys.platform == "win32":
        return None
    try:
        status = os.stat(directory)
    except OSError:
        return None  # as above
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to another account (uid {status.st_uid})", "chown it"
    if status.st_mode & stat.S_IWOTH:
        return "is writable by everyone", "chmod o-w it"
    # Even if this account is the only member now: others may join the group.
    return ("is writable by its group", "chmod g-w it") if status.st_mode & stat.S_IWGRP else None


if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> bool:
        """Try to lock the file; returns whether that worked."""
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)  # far behind what is read and written
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def lock(descriptor: int) -> bool:
        """Try to lock the file; returns whether that worked. This process excludes itself too."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class WholeFile:
    """A file written under another name beside its final place, readable by its owner alone.

    As a context manager it puts the file in its place when the block ends without an error, and
    removes it otherwise.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        folder = os.path.dirname(self._path)
        from tempfile import mkstemp  # would take a tenth of the time of importing Stateward

        try:
            descriptor, self._temporary = mkstemp(dir=folder, prefix=".stateward-")
        except OSError as error:
            raise InvalidInput(f"cannot write into {folder!r}: {error.strerror}") from error
        self._file = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None and not self._file.closed:
                self.finish()
        finally:
            self._remove()

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def write_line(self, text: str) -> None:
        self.write(text.encode() + b"\n")

    def finish(self) -> None:
        """Make the file durable and put it in its place, before the block ends."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self._path)

    def _remove(self) -> None:
        """Leave no trace of the temporary file."""
        with suppress(OSError):  # a full disk: what was not written is not wanted any more
            self._file.close()
        if os.path.exists(self._temporary):
            os.unlink(self._temporary)


def read_toml(path: str) -> dict[str, Any]:
    """Read a TOML file; raises `InvalidInput` if it cannot be read or is not TOML."""
    import tomllib  # used by commands alone

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error


def write_whole(path: str, content: bytes) -> None:
    """Write a whole file, in place of what is there, readable by its owner alone."""
    try:
        with WholeFile(path) as file:
            file.write(content)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
