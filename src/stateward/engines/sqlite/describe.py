"""The description of a file: settings, sizes, and what a power failure would cost."""

from __future__ import annotations

import os
import shutil

import apsw

from stateward.engine import Description
from stateward.engines.sqlite.fetch import Reads
from stateward.engines.sqlite.file import File

# Counting would read a whole table; the span of its row ids is two steps down a tree.
_ROWS = "SELECT coalesce((SELECT max(id) FROM {0}) - (SELECT min(id) FROM {0}) + 1, 0)"
_TABLES = ("entities", "log", "documents")


def describe(file: File, connection: apsw.Connection, reads: Reads) -> Description:
    """Read from the file itself."""
    try:
        synchronous = connection.pragma("synchronous")
        settings = {
            "journal_mode": connection.pragma("journal_mode"),
            "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[synchronous],
            "page_size": connection.pragma("page_size"),
            "wal_bytes": _size(file.path + "-wal"),
        }
        schema = connection.pragma("user_version")
        rows = sum(reads.rows(_ROWS.format(table), ())[0][0] for table in _TABLES)
    except apsw.Error as error:
        raise file.explain(error, "no") from error
    size = _size(file.path) + _size(file.path + "-wal")
    return Description(
        engine="sqlite",
        version=apsw.sqlite_lib_version(),
        schema=schema,
        durability=(
            "an acknowledged write survives the process and a power failure"
            if synchronous >= 2
            else "an acknowledged write survives the process; a power failure may lose the last"
        ),
        bytes=size,
        settings=settings,
        rows=rows,
        capacity=size + shutil.disk_usage(os.path.dirname(file.path) or ".").free,
    )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
