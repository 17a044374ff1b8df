"""Empty stores of every engine. Another engine is added to `ENGINES`, and to nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running

_numbers = itertools.count(1)

ENGINES = ("memory", "sqlite", "postgres", "valkey")
PERSISTENT = ("sqlite", "postgres", "valkey")
SNAPSHOTS = ("sqlite", "postgres")  # the others show each entity as of a moment of its own
PAIRS = [(one, other) for one in ENGINES for other in ENGINES]

NewStore = Callable[[str], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off").start()
    yield server
    server.remove()


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewStore]:
    """The URL of an empty store of that engine."""
    servers = ExitStack()

    def make(engine: str) -> str:
        number = next(_numbers)
        if engine == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.url_of(f"b{number}")
        if engine == "valkey":  # one for each: it has but one database
            folder = tmp_path / f"valkey-{number}"
            return servers.enter_context(running(folder, "valkey", "--appendonly", "no")).url
        if engine == "sqlite":
            return f"sqlite:///{tmp_path}/{number}.db?durability=relaxed"
        return f"memory://backup-{number}"

    with servers:
        yield make
