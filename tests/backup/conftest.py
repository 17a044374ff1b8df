"""Empty stores of every engine. Another engine is added to `ENGINES`, and to nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers.postgres import PostgresServer

_numbers = itertools.count(1)

ENGINES = ("memory", "sqlite", "postgres")
PERSISTENT = ("sqlite", "postgres")
PAIRS = [(one, other) for one in ENGINES for other in ENGINES]

NewStore = Callable[[str], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off").start()
    yield server
    server.remove()


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    """The URL of an empty store of that engine."""

    def make(engine: str) -> str:
        number = next(_numbers)
        if engine == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.url_of(f"b{number}")
        if engine == "sqlite":
            return f"sqlite:///{tmp_path}/{number}.db?durability=relaxed"
        return f"memory://backup-{number}"

    return make
