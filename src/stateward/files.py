"""Files: written so that they appear complete or not at all, and read as TOML."""

from __future__ import annotations

import os
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
    """A file at once, in place of what is there, readable by its owner alone."""
    file = WholeFile(path)
    try:
        file.write(content)
        file.finish()
    except OSError as error:
        file.abandon()
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
