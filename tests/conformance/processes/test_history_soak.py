"""Ten thousand random writes on each engine: every look back agrees with a past in plain Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer
from servers.redis import running

from conformance import engines_postgres, engines_redis
from conformance.state import StoreHarness
from conformance.state.pasts import look_back
from conformance.test_conformance import ENGINES, START
from stateward.testing.clock import SteppableWorld

OPERATIONS = 10_000


def looks_back(stores: Any, world: SteppableWorld) -> None:
    async def run() -> None:
        async with StoreHarness(stores.engine, world) as harness:
            assert await look_back(harness, OPERATIONS, seed=4711) > OPERATIONS // 2

    with asyncio.Runner() as runner:
        runner.run(run())


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_every_look_back_agrees(engine: str, tmp_path: Path) -> None:
    looks_back(ENGINES[engine](tmp_path), SteppableWorld(START))


@pytest.mark.soak
@pytest.mark.parametrize("server", ["valkey", "redis"])
def test_every_look_back_on_a_server_agrees(server: str, tmp_path: Path) -> None:
    with running(tmp_path, server, "--appendonly", "no") as started:
        stores = engines_redis.stores_of(started)
        looks_back(stores, stores.world())


@pytest.mark.soak
def test_every_look_back_on_postgresql_agrees() -> None:
    server = PostgresServer(fsync="off").start()
    try:
        stores = engines_postgres.Stores(server)
        looks_back(stores, stores.world())
        stores.close()
    finally:
        server.remove()
