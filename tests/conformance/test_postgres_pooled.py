"""The shipped suite on PostgreSQL behind a real PgBouncer that lends single transactions.

The URL says nothing about the pooler: it is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from engines_postgres import Stores
from servers.pgbouncer import PgBouncer, need_pgbouncer
from servers.postgres import PostgresServer

pytest.register_assert_rewrite(
    "stateward.testing.conformance", "stateward.sync.testing.conformance"
)

from stateward.sync.testing import conformance as blocking  # noqa: E402
from stateward.testing import conformance  # noqa: E402


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


SOME = ("commits.", "feeds.", "leases.", "waiting.")


def cases(suite: list[tuple[str, object]]) -> list[object]:
    """Some in every run, the others in the long one."""
    return [
        pytest.param(case, id=name, marks=() if name.startswith(SOME) else pytest.mark.soak)
        for name, case in suite
    ]


@pytest.mark.parametrize("case", cases(conformance.CASES))
def test_async(case: conformance.Case, stores: Stores) -> None:
    async def run() -> None:
        async with conformance.Harness(stores.engine, stores.world()) as harness:
            await case(harness)

    asyncio.run(run())


@pytest.mark.parametrize("case", cases(blocking.CASES))
def test_sync(case: blocking.Case, stores: Stores) -> None:
    with blocking.Harness(stores.blocking_engine, stores.world()) as harness:
        case(harness)
