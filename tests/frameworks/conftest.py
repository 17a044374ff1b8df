"""A store of each engine for the adapters, and processes that are other replicas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes.children import Child
from servers.postgres import PostgresServer
from servers.redis import RedisServer

ROLES = Path(__file__).parent / "roles"
ENGINES = ("sqlite", "redis", "postgres")

Start = Callable[..., Child]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that nobody else uses, on each engine in turn.

    What starts processes, each of which imports its framework, is tried on one engine: that any
    engine keeps what a process leaves behind is proved in tests/processes, redis and postgres.
    """
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        assert server.ask("FLUSHALL") == b"+OK\r\n"
        return server.url
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        return postgres.url_of(f"s{next(_numbers)}")
    return file_url(tmp_path)


def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A store for what does not differ between engines."""
    return file_url(tmp_path)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of this test alone, to be killed."""
    server = RedisServer(tmp_path / "mortal").start()
    yield server
    server.stop()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script of `roles/`, and ends by its id each one that the test has left behind."""
    children: list[Child] = []

    def start_child(role: str, *args: object) -> Child:
        child = Child(str(ROLES / role), *args)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.end()
