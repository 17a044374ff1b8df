"""The shipped suite on PostgreSQL behind a real PgBouncer that lends single transactions.

The URL says nothing about the pooler: it is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from servers.pgbouncer import PgBouncer, need_pgbouncer
from servers.postgres import PostgresServer

from conformance import suite
from conformance.engines_postgres import Stores


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    need_pgbouncer(request)
    server = PostgresServer(fsync="off").start()
    bouncer = PgBouncer(server)
    stores = Stores(server, through=bouncer)
    yield stores
    stores.close()
    bouncer.remove()
    server.remove()


SOME = ("commits.", "feeds.", "leases.")  # the others in the long run


@pytest.mark.parametrize("case", suite.params(suite.ASYNC, *SOME, others=pytest.mark.soak))
def test_async(case: suite.AsyncCase, stores: Stores) -> None:
    with asyncio.Runner() as runner:
        runner.run(case(stores.engine, stores.world()))


@pytest.mark.parametrize("case", suite.params(suite.BLOCKING, *SOME, others=pytest.mark.soak))
def test_sync(case: suite.BlockingCase, stores: Stores) -> None:
    case(stores.blocking_engine, stores.world())
