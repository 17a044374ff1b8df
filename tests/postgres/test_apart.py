"""Whole stores kept apart in one database: founded with a note, and demolished by it alone."""

from __future__ import annotations

import time
from typing import Any

import pytest
from servers.postgres import PostgresServer

import stateward
from postgres.conftest import make_engine
from stateward.errors import SchemaError

NOTE = "made by a test\\ of Noor's"


def schemas(server: PostgresServer) -> set[str]:
    rows = server.run_sql("SELECT nspname FROM pg_namespace")
    return {name for (name,) in rows}


async def test_a_schema_is_founded_with_a_note_and_demolished_with_all_that_is_in_it(
    server: PostgresServer, schema: str, url: str
) -> None:
    engine: Any = make_engine(url)
    await engine.create_schema(NOTE)
    assert await engine.marked_schemas(NOTE) == [schema]
    assert await engine.marked_schemas("made by somebody else") == []
    async with stateward.open(url, spill=False) as store:
        await store.user("u-1").put({"name": "Noor"})
    await engine.drop_schema(NOTE)
    assert schema not in schemas(server)
    await engine.drop_schema(NOTE)  # again: there is nothing to do


async def test_a_schema_that_is_there_is_not_founded_again_and_one_without_the_note_stays(
    server: PostgresServer, schema: str, url: str
) -> None:
    async with stateward.open(url, spill=False) as store:
        await store.user("u-1").put({"name": "Noor"})
    engine: Any = make_engine(url)
    with pytest.raises(SchemaError, match="there already"):
        await engine.create_schema(NOTE)
    with pytest.raises(SchemaError, match="does not carry"):
        await engine.drop_schema(NOTE)
    async with stateward.open(url, spill=False) as store:
        assert (await store.user("u-1").get()).value == {"name": "Noor"}


async def test_a_purged_namespace_leaves_no_row(server: PostgresServer, schema: str) -> None:
    url = server.url_of(schema)
    for namespace in ("gone", "kept"):
        async with stateward.open(url, namespace=namespace, spill=False) as store:
            for number in range(205):
                await store.thread(f"t-{number}").append({"role": "user", "content": "hello"})
            await store.user("u-1").put({"name": "Noor"})
            await store.thread("t-0").delete()
    engine: Any = make_engine(url)
    await engine.open()
    assert await engine.purge("gone") == 206
    await engine.close()
    for table in ("log", "documents", "ops"):
        theirs = f"(SELECT id FROM {schema}.entities)"
        query = f"SELECT count(*) FROM {schema}.{table} WHERE entity NOT IN {theirs}"
        assert server.run_sql(query) == [(0,)]
    rows = server.run_sql(f"SELECT namespace, count(*)::int FROM {schema}.entities GROUP BY 1")
    assert rows == [("kept", 206)]


async def test_a_server_says_how_many_connections_are_free_and_how_far_standbys_are_behind(
    url: str,
) -> None:
    async with stateward.open(url, spill=False) as store:
        said = (await store.describe()).settings
    assert said["max_connections"] == 60
    assert said["reserved_connections"] == 3
    assert 1 <= said["used_connections"] <= 60
    assert said["replication_lag_bytes"] is None


async def test_a_standby_that_falls_behind_is_told(server: PostgresServer, url: str) -> None:
    standby = PostgresServer.standby_of(server).start()
    try:
        standby.run_sql("SELECT pg_wal_replay_pause()")
        async with stateward.open(url, spill=False) as store:
            await store.user("u-1").put({"name": "Noor" * 50_000})
            behind, end = 0, time.monotonic() + 30
            while behind < 10_000:
                assert time.monotonic() < end, behind
                behind = (await store.describe()).settings["replication_lag_bytes"] or 0
    finally:
        standby.remove()
