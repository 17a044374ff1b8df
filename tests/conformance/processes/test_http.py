"""Every case of the shipped suite by way of the service, in both colours."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running
from servers.service import PATIENCE, RunningService, running_service

from conformance import suite
from conformance.engines_http import ServedStore
from conformance.engines_postgres import Stores as PostgresStores
from conformance.engines_redis import stores_of
from conformance.test_conformance import START, Memory, Sqlite
from stateward.testing.clock import SteppableWorld

# Cases that are thousands of calls one after the other are left to the soak.
LONG = (
    "repeats.the_ops_of_calls_under_way_are_remembered_however_many",
    "repeats.many_recent_ops_are_remembered",
    "windows.a_turn_of_thousands_of_steps_keeps_its_question",
)


def params(cases: list[tuple[str, Any]], *names: str, cell: suite.Cell = (0, 1)) -> list[Any]:
    chosen = [name for name, _ in cases if name not in LONG and (not names or name in names)]
    return suite.params(cases, *chosen, others=pytest.mark.soak, cell=cell)


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with running_service() as running:
        yield running


def all_closed(service: RunningService) -> None:
    """After the case nothing of it is still running or connected."""
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("stateward")]
    end = time.monotonic() + PATIENCE
    while service.connections():  # the server notices the end of a connection a moment later
        assert time.monotonic() < end, "connections are still open"
        time.sleep(0.002)


@pytest.fixture
def memory(service: RunningService, tmp_path: Path) -> Iterator[ServedStore]:
    served = ServedStore(service, Memory(tmp_path).engine)
    yield served
    served.close()
    all_closed(service)


@pytest.fixture
def sqlite(service: RunningService, tmp_path: Path) -> Iterator[ServedStore]:
    served = ServedStore(service, Sqlite(tmp_path).engine)
    yield served
    served.close()
    all_closed(service)


# In either colour, each case of the contract runs over one of two stores: the service hands on what
# a store answers, and that every engine answers as it should is proved without the service.


def half(number: int) -> list[str]:
    """Return every other case of the contract."""
    return sorted(suite.OF_ENGINES)[number::2]


OF_STATE = [name for name, _ in suite.ASYNC if name not in suite.OF_ENGINES]


@pytest.mark.parametrize("case", params(suite.ASYNC, *OF_STATE, *half(0), cell=(0, 2)))
def test_async_over_sqlite(case: suite.AsyncCase, sqlite: ServedStore) -> None:
    with asyncio.Runner() as runner:
        runner.run(case(sqlite.engine, SteppableWorld(START)))


@pytest.mark.parametrize("case", params(suite.BLOCKING, *OF_STATE, *half(0), cell=(1, 2)))
def test_sync_over_memory(case: suite.BlockingCase, memory: ServedStore) -> None:
    case(memory.blocking_engine, SteppableWorld(START))


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.BLOCKING))
def test_sync_over_sqlite(case: suite.BlockingCase, sqlite: ServedStore) -> None:
    case(sqlite.blocking_engine, SteppableWorld(START))


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.ASYNC))
def test_async_over_memory(case: suite.AsyncCase, memory: ServedStore) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case(memory.engine, SteppableWorld(START)))


# --- behind it, servers -----------------------------------------------------------------


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey", "--appendonly", "no") as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresStores]:
    server = PostgresServer(fsync="off").start()
    try:
        stores = PostgresStores(server)
        yield stores
        stores.close()
    finally:
        server.remove()


def run_on(service: RunningService, stores: Any, case: Any, *, blocking: bool = False) -> None:
    served = ServedStore(service, stores.engine)
    world = stores.world()
    try:
        if blocking:
            case(served.blocking_engine, world)
        else:
            with asyncio.Runner() as runner:
                runner.run(case(served.engine, world))
    finally:
        served.close()
    all_closed(service)


# What a server behind it may change is what the operations do, and that is the contract.


@pytest.mark.parametrize("case", params(suite.ASYNC, *half(1)))
def test_async_over_valkey(
    case: suite.AsyncCase, service: RunningService, valkey: RedisServer
) -> None:
    run_on(service, stores_of(valkey), case)


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.BLOCKING))
def test_sync_over_valkey(
    case: suite.BlockingCase, service: RunningService, valkey: RedisServer
) -> None:
    run_on(service, stores_of(valkey), case, blocking=True)


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.ASYNC))
def test_async_over_postgres(
    case: suite.AsyncCase, service: RunningService, postgres: PostgresStores
) -> None:
    run_on(service, postgres, case)


@pytest.mark.parametrize("case", params(suite.BLOCKING, *half(1)))
def test_sync_over_postgres(
    case: suite.BlockingCase, service: RunningService, postgres: PostgresStores
) -> None:
    run_on(service, postgres, case, blocking=True)
