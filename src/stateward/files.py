"""Files: written so that they appear complete or not at all, locked, and read as TOML."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Any

from stateward.errors import InvalidInput


def private_folder(path: str) -> None:
    """Make the folder, and those above it that are missing, for this account alone."""
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
        return False  # it is not there yet; whoever cannot read it will hear of it


def open_to_others(directory: str) -> tuple[str, str] | None:
    """How accounts other than this one and root may put files there, and what ends that."""
    if sys.platform == "win32":
        return None
    try:
        found = os.stat(directory)
    except OSError:
        return None  # as above
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to another account (uid {found.st_uid})", "chown it"
    if found.st_mode & stat.S_IWOTH:
        return "is writable by everyone", "chmod o-w it"
    # Also a group with this one account in it: who else is in it, or will be, cannot be known.
    return ("is writable by its group", "chmod g-w it") if found.st_mode & stat.S_IWGRP else None


if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> bool:
        """Whether the file is ours now."""
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
        """Whether the file is ours now. Locks of one process's own files exclude each other too."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class WholeFile:
    """Written beside its final place under another name, readable by its owner alone."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        folder = os.path.dirname(self._path)
        from tempfile import mkstemp  # a tenth of what importing Stateward would take

        try:
            descriptor, self._temporary = mkstemp(dir=folder, prefix=".stateward-")
        except OSError as error:
            raise InvalidInput(f"cannot write into {folder!r}: {error.strerror}") from error
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def write_line(self, text: str) -> None:
        self.write(text.encode() + b"\n")

    def finish(self) -> None:
        """Make it durable, then put it in its place."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self._path)

    def abandon(self) -> None:
        """Leave no trace of it."""
        with suppress(OSError):  # a full disk: what was not written is not wanted any more
            self._file.close()
        if os.path.exists(self._temporary):
            os.unlink(self._temporary)


def read_toml(path: str) -> dict[str, Any]:
    """What the file says; `InvalidInput` if it cannot be read or is not TOML."""
    import tomllib  # only commands read any

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error


def write_whole(path: str, content: bytes) -> None:
    """Write a whole file, in place of what is there, readable by its owner alone."""
    file = WholeFile(path)
    try:
        file.write(content)
        file.finish()
    except OSError as error:
        file.abandon()
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
