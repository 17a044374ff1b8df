"""A store of each engine, empty for each test. Servers start when the first test asks for one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running

import stateward

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def redis_for_adapters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("adapters"), "valkey", "--appendonly", "no") as server:
        yield server


@pytest.fixture(scope="session")
def postgres_for_adapters() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of every engine that outlives its process."""
    return url_of(request, tmp_path)


def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("redis_for_adapters")
        assert redis.ask("FLUSHALL") == b"+OK\r\n"
        return redis.url
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres_for_adapters")
        return postgres.url_of(f"adapters{next(_numbers)}")
    return f"sqlite:///{tmp_path / 'agents.db'}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[stateward.Store]:
    async with stateward.open(url) as store:
        yield store


@pytest.fixture
async def memory() -> AsyncIterator[stateward.Store]:
    async with stateward.open("memory://") as store:
        yield store
