"""Replicas that end with their test, and what they do to the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordination.processes.replicas import Effects, Replica

Start = Callable[..., Replica]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts replicas, and ends by its id each one that the test has left behind."""
    replicas: list[Replica] = []

    def start_replica(role: str, **facts: Any) -> Replica:
        replica = Replica(role, **facts)
        replicas.append(replica)
        return replica

    yield start_replica
    for replica in replicas:
        replica.end()


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")
