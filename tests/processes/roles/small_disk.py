"""A real disk of a few megabytes that this process alone sees, and that is gone when it ends.

python small_disk.py FOLDER tells by its exit status whether this machine allows one.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 0x4000, 1 << 18


def mount(folder: str, megabytes: int) -> None:
    """Put an empty disk at `folder`. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(CLONE_NEWNS))
    _check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    size = f"size={megabytes}m".encode()
    _check(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, size))


def make_read_only(folder: str) -> None:
    """No file on it may be open for writing."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", MS_REMOUNT | MS_RDONLY, None))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    try:
        mount(sys.argv[1], 1)
    except (OSError, AttributeError) as problem:
        sys.exit(f"no disk of its own here: {problem}")
