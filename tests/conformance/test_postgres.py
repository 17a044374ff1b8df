"""Every case of the shipped suite on a real PostgreSQL, in both colours.

All run by a clock that the test moves; those about time also by the server's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvloop
from engines_postgres import Stores
from servers.postgres import PostgresServer, system_binaries

pytest.register_assert_rewrite(
    "stateward.testing.conformance", "stateward.sync.testing.conformance"
)

from stateward.engines.registry import create_engine, parse  # noqa: E402
from stateward.sync.testing import conformance as blocking  # noqa: E402
from stateward.testing import conformance  # noqa: E402
from stateward.world import World  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off").start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def all_stores(server: PostgresServer) -> Iterator[Stores]:
    stores = Stores(server)
    yield stores
    stores.close()


@pytest.fixture
def stores(all_stores: Stores) -> Iterator[Stores]:
    """After the case nothing of it is still running or connected."""
    yield all_stores
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("stateward")]
    for _ in range(100):  # the server notices the end of a connection a moment later
        if not all_stores.connections():
            break
        threading.Event().wait(0.01)
    assert all_stores.connections() == 0


if system_binaries() is not None:

    @pytest.fixture(scope="module")
    def second() -> Iterator[Stores]:
        """The version that the system has."""
        server = PostgresServer(system_binaries(), fsync="off").start()
        stores = Stores(server)
        yield stores
        stores.close()
        server.remove()

    SOME = ("commits.", "writes.")  # the others in the long run

    @pytest.mark.parametrize(
        "case",
        [
            pytest.param(c, id=name, marks=() if name.startswith(SOME) else pytest.mark.soak)
            for name, c in blocking.CASES
        ],
    )
    def test_on_a_second_version(case: blocking.Case, second: Stores) -> None:
        with blocking.Harness(second.blocking_engine, second.world()) as harness:
            case(harness)


@pytest.fixture(scope="module")
def by_cursors() -> Iterator[Stores]:
    """The driver's ordinary way, for whoever has reason to distrust ours."""
    server = PostgresServer(fsync="off").start()
    stores = Stores(server, wire="off")
    yield stores
    stores.close()
    server.remove()


def cases(suite: list[tuple[str, object]]) -> list[object]:
    return [pytest.param(case, id=name) for name, case in suite]


async def run_async(case: conformance.Case, stores: Stores) -> None:
    async with conformance.Harness(stores.engine, stores.world()) as harness:
        await case(harness)


@pytest.mark.parametrize("case", cases(conformance.CASES))
def test_async(case: conformance.Case, stores: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(run_async(case, stores))


@pytest.mark.parametrize("case", cases(blocking.CASES))
def test_sync(case: blocking.Case, stores: Stores) -> None:
    with blocking.Harness(stores.blocking_engine, stores.world()) as harness:
        case(harness)


CONTRACT = ("checks.", "commits.", "leases.", "listing.", "reading.", "restoring.", "writes.")


def some(suite: list[tuple[str, object]]) -> list[object]:
    """The engine's own rules in every run, the others in the long one."""
    return [
        pytest.param(case, id=name, marks=() if name.startswith(CONTRACT) else pytest.mark.soak)
        for name, case in suite
    ]


@pytest.mark.parametrize("case", some(conformance.CASES))
def test_by_cursors_async(case: conformance.Case, by_cursors: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(run_async(case, by_cursors))


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(blocking.CASES))
def test_by_cursors_sync(case: blocking.Case, by_cursors: Stores) -> None:
    with blocking.Harness(by_cursors.blocking_engine, by_cursors.world()) as harness:
        case(harness)


FEW = ("leases.", "retention.what_has_expired", "retention.after_expiry")


@pytest.mark.parametrize(
    "case", cases([item for item in conformance.WITHOUT_CLOCK if item[0].startswith(FEW)])
)
def test_by_the_servers_own_clock(case: conformance.Case, server: PostgresServer) -> None:
    url = parse(server.url_of("real"))

    async def run() -> None:
        async with conformance.Harness(lambda world: create_engine(url, world), World()) as harness:
            await case(harness)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
