"""Replicas over a real PostgreSQL whose clock the tests move.

The engine's clock is a function in its schema. Here it is replaced by one that reads a table, so
that days pass in no time.
"""

from __future__ import annotations

from typing import Any

import psycopg
from servers.pgbouncer import PgBouncer
from servers.postgres import PostgresServer

from stateward.engine import Engine, SyncEngine
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.testing.clock import SteppableWorld
from stateward.world import World

START = 1_700_000_000.0
TABLES = ("entities", "log", "documents", "ops", "listeners")


class Stores:
    """One schema, for one case after the other."""

    def __init__(
        self, server: PostgresServer, through: PgBouncer | None = None, **options: str
    ) -> None:
        self._url = parse((through or server).url_of("stepped", **options))
        create_sync_engine(self._url, World()).migrate()
        self._connection = server.connect()
        self._connection.execute("CREATE TABLE stepped.test_clock (now float8 NOT NULL)")
        self._connection.execute("INSERT INTO stepped.test_clock VALUES (0)")
        self._connection.execute(
            "CREATE OR REPLACE FUNCTION stepped.clock() RETURNS float8 LANGUAGE sql VOLATILE AS"
            " 'SELECT now FROM stepped.test_clock'"
        )

    def engine(self, world: World) -> Engine:
        engine: Engine = create_engine(self._url, world)
        return engine

    def blocking_engine(self, world: World) -> SyncEngine:
        engine: SyncEngine = create_sync_engine(self._url, world)
        return engine

    def world(self) -> DatabaseClock:
        """A fresh clock, over empty tables."""
        for table in TABLES:
            self._connection.execute(f"DELETE FROM stepped.{table}")  # type: ignore[arg-type]
        return DatabaseClock(self._connection)

    def connections(self) -> int:
        """How many the engines have open."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stateward'"
        ((count,),) = self._connection.execute(query).fetchall()
        return int(count)

    def close(self) -> None:
        self._connection.close()


class DatabaseClock(SteppableWorld):
    """Moves the clock of the schema along with its own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(START)
        self._connection = connection
        self._set()

    def advance(self, seconds: float = 0.0, **more: float) -> None:
        super().advance(seconds, **more)
        self._set()

    def _set(self) -> None:
        self._connection.execute("UPDATE stepped.test_clock SET now = %s", (self.now(),))
