"""Every case of the shipped suite on a real PostgreSQL, in both colours.

All run by a clock that the test moves; those about time also by the server's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvloop
from servers.postgres import PostgresServer, system_binaries

from conformance import suite
from conformance.engines_postgres import Stores
from stateward.engines.registry import create_engine, parse
from stateward.world import World


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

    @pytest.mark.parametrize("case", suite.params(suite.BLOCKING, *SOME, others=pytest.mark.soak))
    def test_on_a_second_version(case: suite.BlockingCase, second: Stores) -> None:
        case(second.blocking_engine, second.world())


@pytest.fixture(scope="module")
def by_cursors() -> Iterator[Stores]:
    """The driver's ordinary way, for whoever has reason to distrust ours."""
    server = PostgresServer(fsync="off").start()
    stores = Stores(server, wire="off")
    yield stores
    stores.close()
    server.remove()


# Two ways to reach a server: see `suite.belongs`.
@pytest.mark.parametrize("case", suite.params(suite.ASYNC, cell=(0, 2)))
def test_async(case: suite.AsyncCase, stores: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(case(stores.engine, stores.world()))


@pytest.mark.parametrize("case", suite.params(suite.BLOCKING, cell=(1, 2)))
def test_sync(case: suite.BlockingCase, stores: Stores) -> None:
    case(stores.blocking_engine, stores.world())


CONTRACT = ("checks.", "commits.", "leases.", "listing.", "fetches.", "restores.", "writes.")


@pytest.mark.parametrize("case", suite.params(suite.ASYNC, *CONTRACT, others=pytest.mark.soak))
def test_by_cursors_async(case: suite.AsyncCase, by_cursors: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(case(by_cursors.engine, by_cursors.world()))


@pytest.mark.soak
@pytest.mark.parametrize("case", suite.params(suite.BLOCKING))
def test_by_cursors_sync(case: suite.BlockingCase, by_cursors: Stores) -> None:
    case(by_cursors.blocking_engine, by_cursors.world())


@pytest.mark.parametrize("case", suite.params(suite.ABOUT_TIME))
def test_by_the_servers_own_clock(case: suite.AsyncCase, server: PostgresServer) -> None:
    url = parse(server.url_of("real"))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case(lambda world: create_engine(url, world), World()))
