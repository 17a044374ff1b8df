"""A store of every engine, for all tests of the layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    server = PostgresServer().start()
    yield server.url_of("layers")
    server.remove()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("redis"), "redis", "--appendonly", "no") as server:
        yield server.url


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'agents.db'}?durability=relaxed"


@pytest.fixture
def memory() -> str:
    return "memory://"
