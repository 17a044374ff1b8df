"""Fixtures of the tests with real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from processes.children import Child

Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children, and ends by its id each one that the test has left behind."""
    children: list[Child] = []

    def start_child(role: str, *args: object) -> Child:
        child = Child(role, *args)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file is or will be."""
    return tmp_path / "agents.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"
