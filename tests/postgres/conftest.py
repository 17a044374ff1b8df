"""One server a worker, and a schema of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from servers.postgres import PostgresServer

from stateward.engine import Engine, SyncEngine
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.world import World

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture
def schema() -> str:
    return f"s{next(_numbers)}"


@pytest.fixture
def url(server: PostgresServer, schema: str) -> str:
    return server.url_of(schema)


MakeEngine = Callable[[str], Engine]


def make_engine(url: str) -> Engine:
    engine: Engine = create_engine(parse(url), World())
    return engine


def make_blocking(url: str) -> SyncEngine:
    engine: SyncEngine = create_sync_engine(parse(url), World())
    return engine
