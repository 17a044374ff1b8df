"""One server of each kind for all tests of a process; each test has keys of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster, running_cluster


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey", "--appendonly", "no") as server:
        yield server


@pytest.fixture(scope="session")
def redis8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("redis"), "redis", "--appendonly", "no") as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "valkey", replicas=0) as server:
        yield server
