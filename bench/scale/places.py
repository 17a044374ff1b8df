"""Stores to fill: a file, a server of its own, or a database, each under a name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import sleep
from typing import Any, Protocol

from bench.homes import EVERYSEC, TESTS, start_server
from stateward.engine import Engine
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.testing.clock import SteppableWorld
from stateward.world import World

TITLES = {
    "sqlite": "SQLite",
    "redis": "Valkey",
    "postgres": "PostgreSQL",
    "partitioned": "PostgreSQL, 16 partitions",
}
TICK = os.sysconf("SC_CLK_TCK")
UNDER_WAY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


class Place(Protocol):
    """Where one engine keeps its stores."""

    def url(self, name: str) -> str:
        """The store of that name; made when it is first asked for."""

    def size(self, name: str) -> dict[str, int]:
        """Bytes that it takes, by where it takes them."""

    def cpu(self) -> float | None:
        """Seconds of processor time that servers took; None if there is none."""

    def network(self, name: str) -> tuple[float | None, float | None]:
        """Bytes that the server has read and sent, where it counts them."""

    def settle(self, name: str) -> None:
        """Wait for what the store still does because it was filled so fast."""

    def engine_later(self, name: str, days: float) -> Engine:
        """An engine over the store for which so many days have passed."""

    def close(self) -> None: ...


class Files:
    """SQLite: a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, name: str) -> str:
        return f"sqlite:///{self._folder}/{name}.db"

    def size(self, name: str) -> dict[str, int]:
        paths = (self._folder / f"{name}.db{end}" for end in ("", "-wal"))
        return {"disk": sum(path.stat().st_size for path in paths if path.exists())}

    def cpu(self) -> float | None:
        return None

    def network(self, name: str) -> tuple[float | None, float | None]:
        return None, None

    def settle(self, name: str) -> None:
        """Everything is in the file when its last user has closed it."""

    def engine_later(self, name: str, days: float) -> Engine:
        engine: Engine = create_engine(parse(self.url(name)), _later(days))
        return engine

    def close(self) -> None:
        """The folder is removed by whoever made it."""


class Servers:
    """Valkey: a process each, which writes to its disk every second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Any] = {}

    def url(self, name: str) -> str:
        if name not in self._running:
            self._running[name] = start_server(self._folder / f"valkey-{name}", *EVERYSEC)
        return str(self._running[name].url)

    def cpu(self) -> float | None:
        return sum(cpu_of(server.pid) for server in self._running.values())

    def network(self, name: str) -> tuple[float | None, float | None]:
        said = self._said(name, "stats")
        return int(said["total_net_input_bytes"]), int(said["total_net_output_bytes"])

    def settle(self, name: str) -> None:
        """Until the file of its log is not being rewritten any more."""
        while any(int(self._said(name, "persistence")[field]) for field in UNDER_WAY):
            sleep(0.2)

    def _said(self, name: str, section: str) -> dict[str, str]:
        said = self._running[name].ask("INFO", section).decode()
        return dict(line.partition(":")[::2] for line in said.splitlines())

    def size(self, name: str) -> dict[str, int]:
        fields = self._said(name, "memory")
        files = (self._folder / f"valkey-{name}" / "appendonlydir").iterdir()
        return {
            "memory": int(fields["used_memory_dataset"]),
            "disk": sum(file.stat().st_size for file in files),
        }

    def engine_later(self, name: str, days: float) -> Engine:
        from stateward.engines.redis.engine import RedisEngine
        from stateward.engines.redis.settings import parse_server

        world = _later(days)
        return RedisEngine(parse_server(parse(self.url(name)), world), world.now)

    def close(self) -> None:
        for server in self._running.values():
            server.stop()


class Databases:
    """PostgreSQL: one server, a database each. As it is by default, but for its memory."""

    def __init__(self, _folder: Path) -> None:
        if str(TESTS) not in sys.path:
            sys.path.append(str(TESTS))
        from servers.postgres import PostgresServer

        settings = {"shared_buffers": "256MB", "max_connections": "200", "max_wal_size": "2GB"}
        self._server = PostgresServer(**settings).start()
        self._made: set[str] = set()

    def url(self, name: str) -> str:
        if name not in self._made:
            self._made.add(name)
            self._server.run_sql(f"CREATE DATABASE {name}")
        return self._server.database(name)

    def cpu(self) -> float | None:
        return cpu_of(self._server.pid)

    def network(self, name: str) -> tuple[float | None, float | None]:
        return None, None

    def settle(self, name: str) -> None:
        """What its own housekeeping would do a little later."""
        with self._server.connect_to(name) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def size(self, name: str) -> dict[str, int]:
        ((size,),) = self._server.run_sql(f"SELECT pg_database_size('{name}')")
        ((empty,),) = self._server.run_sql("SELECT pg_database_size('template0')")
        with self._server.connect_to(name) as connection:
            ((indexes,),) = connection.execute(INDEXES).fetchall()
        return {"disk": int(size) - int(empty), "of it indexes": int(indexes)}

    def engine_later(self, name: str, days: float) -> Engine:
        clock = (
            "CREATE OR REPLACE FUNCTION stateward.clock() RETURNS float8 LANGUAGE sql VOLATILE AS "
            f"'SELECT extract(epoch FROM clock_timestamp())::float8 + {days * 86_400:.0f}'"
        )
        with self._server.connect_to(name) as connection:
            connection.execute(clock)  # type: ignore[call-overload]
        engine: Engine = create_engine(parse(self.url(name)), _later(days))
        return engine

    def close(self) -> None:
        self._server.remove()


INDEXES = """
SELECT sum(pg_relation_size(indexrelid)) FROM pg_index
JOIN pg_class ON pg_class.oid = indrelid WHERE relnamespace = 'stateward'::regnamespace
"""


class Partitions(Databases):
    """The same with the messages of all conversations in so many tables, by their entity."""

    def url(self, name: str) -> str:
        is_new = name not in self._made
        url = super().url(name)
        if is_new:
            create_sync_engine(parse(url), World()).migrate()
            with self._server.connect_to(name) as connection:
                for statement in PARTITIONED.split(";"):
                    connection.execute(statement)  # type: ignore[call-overload]
        return url


PARTS = 16
# No data is there yet. The primary key begins with the entity, as the key of a partition must.
PARTITIONED = """
CREATE TABLE stateward.parted (LIKE stateward.log INCLUDING DEFAULTS) PARTITION BY HASH (entity);
DROP TABLE stateward.log CASCADE;
ALTER TABLE stateward.parted RENAME TO log;
ALTER TABLE stateward.log ADD PRIMARY KEY (entity, life, seq);
CREATE INDEX log_by_key ON stateward.log (entity, life, key, seq) WHERE key IS NOT NULL
""" + "".join(
    f";CREATE TABLE stateward.log_{n} PARTITION OF stateward.log "
    f"FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {n})"
    for n in range(PARTS)
)

PLACES: dict[str, Any] = {
    "sqlite": Files,
    "redis": Servers,
    "postgres": Databases,
    "partitioned": Partitions,
}


def _later(days: float) -> SteppableWorld:
    world = SteppableWorld()
    world.advance(days=days)
    return world


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_of(pid: int) -> float:
    """Seconds of processor time of a process, its children, and those that have ended."""
    return sum(_ticks(each) for each in (pid, *_children(pid))) / TICK


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # it has ended meanwhile, and is counted by its parent
        return 0
    return sum(int(field) for field in fields[11:15])  # own and waited-for, user and system


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
