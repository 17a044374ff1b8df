"""One PostgreSQL server a worker, and a schema of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from servers.postgres import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture
def postgres(server: PostgresServer) -> str:
    """The URL of an empty schema."""
    return server.url_of(f"layered{next(_numbers)}")
