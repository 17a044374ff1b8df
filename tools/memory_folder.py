"""Say where files can be kept in memory, if there is room and programs may run from there."""

from __future__ import annotations

import os

FOLDER = "/dev/shm"
ROOM = 4 << 30  # bytes; `make verify` needs one


def main() -> None:
    try:
        found = os.statvfs(FOLDER)
    except OSError:
        return
    free = found.f_bavail * found.f_frsize
    runs = not found.f_flag & os.ST_NOEXEC
    if free >= ROOM and runs and os.access(FOLDER, os.W_OK):
        print(FOLDER)


if __name__ == "__main__":
    main()
