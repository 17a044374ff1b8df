"""A real PostgreSQL, started for the benchmark, and a database of its own for each contestant."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contestants import Field
from bench.conversations import Population

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.postgres import PostgresServer


class Databases:
    """Each layout is filled once; every contestant gets a copy of its own.

    The server is as one is by default, but for its memory: fsync on, synchronous_commit on.
    """

    def __init__(self, field: Field, population: Population) -> None:
        self._copies = 0
        self._server = PostgresServer(shared_buffers="256MB", max_connections="100").start()
        try:
            self._server.run_sql("CREATE ROLE filler LOGIN SUPERUSER")
            self._server.run_sql("ALTER ROLE filler SET synchronous_commit = off")
            for layout, fill in field.fill.items():
                self._server.run_sql(f"CREATE DATABASE {layout}_full")
                url = self._server.database(f"{layout}_full").replace("postgres@", "filler@")
                fill(url, population)
                self._server.run_sql("CHECKPOINT")
        except BaseException:
            self.close()
            raise

    def copy(self, layout: str) -> str:
        self._copies += 1
        name = f"{layout}_{self._copies}"
        self._server.run_sql(f"CREATE DATABASE {name} TEMPLATE {layout}_full")
        with self._server.connect_to(name) as connection:
            connection.execute("VACUUM ANALYZE")
        return self._server.database(name)

    def close(self) -> None:
        self._server.remove()
