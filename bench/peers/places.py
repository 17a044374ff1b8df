"""Where contestants keep what they store: each has a file, a folder, a database or a server."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench.databases import PostgresServer
from bench.homes import EVERYSEC, start_server
from bench.peers.table import Entry
from bench.storage import memory

PIECE = 512  # bytes: what `st_blocks` counts
CHECKPOINT = """\
import sqlite3, sys
((busy, _, _),) = sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)")
sys.exit(busy)
"""


class Places(Protocol):
    """An engine, and a new place on it for each who asks; and how much was kept, how much written.

    What is written is what goes to the disk for it to be durable: by this process on SQLite, to the
    write-ahead log of PostgreSQL, to the append-only file of Valkey.
    """

    def new(self, entry: Entry) -> str: ...
    def stored(self, place: str) -> int: ...
    def written(self, place: str) -> int: ...


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def new(self, entry: Entry) -> str:
        self._count += 1
        path = self._folder / f"{self._count}{entry.file}"
        if not entry.file:
            path.mkdir()
        elif entry.wal:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.close()
        return str(path)

    def stored(self, place: str) -> int:
        """On the disk, after everything was copied out of the WAL.

        By another process: two libraries of SQLite that have a file open in one process know
        nothing of each other's locks.
        """
        path = Path(place)
        if path.is_dir():
            return sum(each.stat().st_blocks * PIECE for each in path.rglob("*"))
        subprocess.run([sys.executable, "-c", CHECKPOINT, place], check=True)
        return os.path.getsize(path)

    def written(self, place: str) -> int:
        """By all threads of this process; the kernel counts a page when it is first changed."""
        lines = Path("/proc/self/io").read_text().splitlines()
        counts = dict(line.split(": ") for line in lines)
        return int(counts["write_bytes"])


class Databases:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._count = 0

    def new(self, entry: Entry) -> str:
        self._count += 1
        self._server.run_sql(f"CREATE DATABASE peer_{self._count}")
        return self._server.database(f"peer_{self._count}")

    def stored(self, place: str) -> int:
        name = place.rpartition("/")[2]
        ((size,),) = self._server.run_sql(f"SELECT pg_database_size('{name}')")
        return int(size)

    def written(self, place: str) -> int:
        ((at,),) = self._server.run_sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(at)


class Servers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Any] = {}

    def new(self, entry: Entry) -> str:
        server = start_server(self._folder / f"valkey-{len(self._running)}", *EVERYSEC)
        self._running[server.url] = server
        return server.url

    def stored(self, place: str) -> int:
        return memory(self._running[place])

    def written(self, place: str) -> int:
        said = self._running[place].ask("INFO", "persistence").decode()
        fields = dict(line.partition(":")[::2] for line in said.splitlines())
        return int(fields["aof_current_size"])

    def close(self) -> None:
        for server in self._running.values():
            server.stop()


@contextmanager
def places(engine: str, folder: Path) -> Iterator[Places]:
    """An engine as it is by default, but for PostgreSQL's memory and connections."""
    if engine == "sqlite":
        yield Files(folder)
    elif engine == "redis":
        servers = Servers(folder)
        try:
            yield servers
        finally:
            servers.close()
    else:
        server = PostgresServer(shared_buffers="256MB", max_connections="200").start()
        try:
            yield Databases(server)
        finally:
            server.remove()
