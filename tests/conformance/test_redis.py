"""Every case of the shipped suite on real servers, in both colours.

All run by a clock that the test moves; those about time also by the server's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop
from engines_redis import Stores, stores_of
from servers.redis import RedisServer, running, system_binary
from servers.redis_cluster import running_cluster

pytest.register_assert_rewrite(
    "stateward.testing.conformance", "stateward.sync.testing.conformance"
)

from stateward.engines.registry import create_engine, parse  # noqa: E402
from stateward.sync.testing import conformance as blocking  # noqa: E402
from stateward.testing import conformance  # noqa: E402
from stateward.world import World  # noqa: E402

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
    for _ in range(100):  # the server notices the end of a connection a moment later
        if not stores.connections():
            break
        threading.Event().wait(0.01)
    assert stores.connections() == 0


def run_async(case: conformance.Case, stores: Stores) -> None:
    async def run() -> None:
        async with conformance.Harness(stores.engine, stores.world()) as harness:
            await case(harness)

    with asyncio.Runner() as runner:
        runner.run(run())
    all_closed(stores)


def run_blocking(case: blocking.Case, stores: Stores) -> None:
    with blocking.Harness(stores.blocking_engine, stores.world()) as harness:
        case(harness)
    all_closed(stores)


def cases(suite: list[tuple[str, Any]], *prefixes: str) -> list[Any]:
    return [pytest.param(case, id=name) for name, case in suite if name.startswith(prefixes)]


@pytest.mark.parametrize("case", cases(conformance.CASES, ""))
def test_async(case: conformance.Case, valkey: RedisServer) -> None:
    run_async(case, stores_of(valkey))


@pytest.mark.parametrize("case", cases(blocking.CASES, ""))
def test_sync(case: blocking.Case, redis: RedisServer) -> None:
    run_blocking(case, stores_of(redis))


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(conformance.CASES, ""))
def test_async_on_redis(case: conformance.Case, redis: RedisServer) -> None:
    run_async(case, stores_of(redis))


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(blocking.CASES, ""))
def test_sync_on_valkey(case: blocking.Case, valkey: RedisServer) -> None:
    run_blocking(case, stores_of(valkey))


@pytest.mark.parametrize("case", cases(conformance.CASES, ""))
def test_on_a_cluster(case: conformance.Case, cluster: Stores) -> None:
    run_async(case, cluster)


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(blocking.CASES, ""))
def test_on_a_cluster_in_blocking_calls(case: blocking.Case, cluster: Stores) -> None:
    run_blocking(case, cluster)


if system_binary() is not None:

    @pytest.fixture(scope="module")
    def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
        """The version that the system has."""
        with running(tmp_path_factory.mktemp("second"), "system", *IN_MEMORY) as server:
            yield server

    @pytest.mark.parametrize("case", cases(conformance.CASES, ""))
    def test_on_a_second_version(case: conformance.Case, second: RedisServer) -> None:
        run_async(case, stores_of(second))


FEW = ("leases.", "retention.what_has_expired", "retention.after_expiry")


@pytest.mark.parametrize("case", cases(conformance.WITHOUT_CLOCK, *FEW))
def test_by_the_servers_own_clock(case: conformance.Case, redis: RedisServer) -> None:
    async def run() -> None:
        url = parse(redis.url)
        async with conformance.Harness(lambda world: create_engine(url, world), World()) as harness:
            await case(harness)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    all_closed(stores_of(redis))
