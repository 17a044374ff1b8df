"""Every case of the shipped suite on real servers, in both colours.

All run by a clock that the test moves; those about time also by the server's own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
import uvloop
from servers.redis import RedisServer, running, system_binary
from servers.redis_cluster import running_cluster

from conformance import suite
from conformance.engines_redis import Stores, stores_of
from stateward.engines.registry import create_engine, parse
from stateward.world import World

IN_MEMORY = ("--appendonly", "no")


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey", *IN_MEMORY) as server:
        yield server


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("redis"), "redis", *IN_MEMORY) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "valkey", replicas=1) as cluster:
        yield Stores(cluster.url, cluster.nodes, cluster.empty)


def all_closed(stores: Stores) -> None:
    """After the case nothing of it is still running or connected."""
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("stateward")]
    for _ in range(1000):  # the server notices the end of a connection a moment later
        if not (left := stores.connections()):
            return
        time.sleep(0.002)
    raise AssertionError(f"{left} connections are still open")


def run_async(case: suite.AsyncCase, stores: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(case(stores.engine, stores.world()))
    all_closed(stores)


def run_blocking(case: suite.BlockingCase, stores: Stores) -> None:
    case(stores.blocking_engine, stores.world())
    all_closed(stores)


# Three ways to reach a server: see `suite.belongs`.
ALONE, BLOCKING, CLUSTER = (0, 3), (1, 3), (2, 3)


@pytest.mark.parametrize("case", suite.params(suite.ASYNC, cell=ALONE))
def test_async(case: suite.AsyncCase, valkey: RedisServer) -> None:
    run_async(case, stores_of(valkey))


@pytest.mark.parametrize("case", suite.params(suite.BLOCKING, cell=BLOCKING))
def test_sync(case: suite.BlockingCase, redis: RedisServer) -> None:
    run_blocking(case, stores_of(redis))


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.ASYNC))
def test_async_on_redis(case: suite.AsyncCase, redis: RedisServer) -> None:
    run_async(case, stores_of(redis))


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.BLOCKING))
def test_sync_on_valkey(case: suite.BlockingCase, valkey: RedisServer) -> None:
    run_blocking(case, stores_of(valkey))


@pytest.mark.parametrize("case", suite.params(suite.ASYNC, cell=CLUSTER))
def test_on_a_cluster(case: suite.AsyncCase, cluster: Stores) -> None:
    run_async(case, cluster)


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.BLOCKING))
def test_on_a_cluster_in_blocking_calls(case: suite.BlockingCase, cluster: Stores) -> None:
    run_blocking(case, cluster)


@pytest.fixture(scope="module")
def half_moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """A cluster all of whose slots are being moved, without end."""
    with running_cluster(tmp_path_factory.mktemp("half_moved"), "redis", replicas=0) as cluster:
        cluster.open_slots()
        yield Stores(cluster.url, cluster.nodes, cluster.empty)


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.ASYNC))
def test_on_a_cluster_whose_slots_move(case: suite.AsyncCase, half_moved: Stores) -> None:
    run_async(case, half_moved)


if system_binary() is not None:

    @pytest.fixture(scope="module")
    def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
        """The version that the system has."""
        with running(tmp_path_factory.mktemp("second"), "system", *IN_MEMORY) as server:
            yield server

    # What a version may change is what its commands do, and those are the engine's.
    OF_ENGINES = tuple(suite.OF_ENGINES)

    @pytest.mark.parametrize(
        "case", suite.params(suite.ASYNC, *OF_ENGINES, others=pytest.mark.soak)
    )
    def test_on_a_second_version(case: suite.AsyncCase, second: RedisServer) -> None:
        run_async(case, stores_of(second))


@pytest.mark.parametrize("case", suite.params(suite.ABOUT_TIME))
def test_by_the_servers_own_clock(case: suite.AsyncCase, redis: RedisServer) -> None:
    url = parse(redis.url)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case(lambda world: create_engine(url, world), World()))
    all_closed(stores_of(redis))
