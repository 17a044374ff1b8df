"""A store of its own for every test, and a way to make it stand still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import apsw
import pytest

Stall = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file is or will be."""
    return tmp_path / "agents.db"


@pytest.fixture
def url(path: Path) -> Iterator[str]:
    """The store's URL; after the test nothing of Stateward is still running."""
    yield f"sqlite:///{path}?durability=relaxed"  # a slow disk must not cost a lease
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("stateward")]


@pytest.fixture
def stall(path: Path) -> Stall:
    """While its block lasts nobody can write to the file, which must exist."""

    @contextmanager
    def stalled() -> Iterator[None]:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    return stalled
