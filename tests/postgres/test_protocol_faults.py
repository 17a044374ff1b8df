"""Trouble at each message between client and server: what was answered is there, in both colours.

A write is applied, surely not applied, or may be applied; and it is sent again, and applied once.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from servers.postgres import PostgresServer
from servers.postgres_proxy import Fault, MessageProxy

from postgres.conftest import make_blocking, make_engine
from stateward.engines.postgres.wire import PREPARE_AFTER
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Log, Op, Outcome

Execute = Callable[[Sequence[Op]], Awaitable[list[Outcome]]]

FAULTS = [
    *(Fault("client", kind, action) for kind in "PBDES" for action in ("end", "terminate")),
    *(Fault("server", kind, "end") for kind in "12TtDCZ"),
]  # type: ignore[list-item]
SHAPES = ("alone", "two together", "with a read")
WARM = (0, PREPARE_AFTER + 1)  # uses of a statement before the fault: it is new, or prepared
SWEEP = [*itertools.product(FAULTS, SHAPES, WARM)]
ALWAYS = [  # the rows have come, and what becomes of the transaction is still open
    (Fault("client", "S", "terminate"), shape, warm) for shape in SHAPES for warm in WARM
]
SAMPLE = 8

_names = itertools.count(1)


def turn() -> Commit:
    name = f"turn {next(_names)}"
    return Commit(Entity("n", "thread", name), name, (Append((f'"{name}"',)),))


def batch(shape: str) -> list[Op]:
    if shape == "alone":
        return [turn()]
    other: Op = turn() if shape == "two together" else Fetch(turn().entity, log=Log(last=1))
    return [turn(), other]


@asynccontextmanager
async def executing(url: str, colour: str) -> AsyncIterator[Execute]:
    if colour == "async":
        engine = make_engine(url)
        await engine.open()
        yield engine.execute
        await engine.close()
        return
    blocking = make_blocking(url)
    await asyncio.to_thread(blocking.open)

    async def execute(ops: Sequence[Op]) -> list[Outcome]:
        return await asyncio.to_thread(blocking.execute, ops)

    yield execute
    await asyncio.to_thread(blocking.close)


@pytest.mark.parametrize("wire", ["on", "off"])
@pytest.mark.parametrize("colour", ["async", "blocking"])
async def test_what_was_answered_is_there_whatever_message_is_lost(
    server: PostgresServer, schema: str, colour: str, wire: str
) -> None:
    some = random.Random(f"{colour} {wire}").sample(SWEEP, SAMPLE)
    await sweep(server, schema, colour, wire, ALWAYS + some)


@pytest.mark.soak
@pytest.mark.parametrize("wire", ["on", "off"])
@pytest.mark.parametrize("colour", ["async", "blocking"])
async def test_what_was_answered_is_there_at_every_message(
    server: PostgresServer, schema: str, colour: str, wire: str
) -> None:
    await sweep(server, schema, colour, wire, SWEEP)


async def sweep(
    server: PostgresServer,
    schema: str,
    colour: str,
    wire: str,
    cases: Sequence[tuple[Fault, str, int]],
) -> None:
    met = 0
    async with MessageProxy(server) as proxy:
        url = proxy.url_of(schema, wire=wire, pool="3", listen="off")
        async with executing(url, colour) as execute:
            for fault, shape, warm in cases:
                for _ in range(warm):
                    await execute(batch(shape))
                met += await check(server, proxy, execute, schema, fault, shape)
    assert met > len(cases) // 3, "most faults met nothing"


async def check(
    server: PostgresServer,
    proxy: MessageProxy,
    execute: Execute,
    schema: str,
    fault: Fault,
    shape: str,
) -> bool:
    """Meet one fault; whether it was met."""
    ops = batch(shape)
    commits = [op for op in ops if isinstance(op, Commit)]
    proxy.arm(fault)
    answered, applied = False, "unknown"
    try:
        outcomes = await execute(ops)
        answered = all(isinstance(outcomes[ops.index(commit)], Applied) for commit in commits)
        assert answered, (fault, shape, outcomes)
    except StoreUnavailable as error:
        applied = error.applied
    hit, proxy.fault = proxy.hit, None
    if hit is not None:  # it may be at work still
        server.run_sql(f"SELECT pg_terminate_backend({hit.pid}, 5000)")
    names = ", ".join(f"'{commit.entity.id}'" for commit in commits)
    there = f"SELECT coalesce(sum(version), 0) FROM {schema}.entities WHERE name IN ({names})"
    ((stored,),) = server.run_sql(there)
    if answered:
        assert stored == len(commits), (fault, shape)
    elif applied == "no":
        assert stored == 0, (fault, shape)
    for commit in commits:
        (again,) = await execute([commit])
        assert isinstance(again, Applied | Duplicate), (fault, shape)
    assert server.run_sql(there) == [(len(commits),)], (fault, shape)
    return hit is not None
