"""A server sends a statement's rows before it commits. What it then refuses was never answered.

Constraints that are checked at the end, queues of notifications and extensions refuse commits; here
a trigger does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from servers.postgres import PostgresServer

import stateward
from postgres.conftest import make_blocking, make_engine
from stateward import Policy
from stateward.engines.postgres.wire import PREPARE_AFTER
from stateward.errors import StatewardError, StoreUnavailable
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Entity,
    Fetch,
    Fetched,
    Log,
    Op,
    Outcome,
    Put,
    Write,
)

Execute = Callable[[Sequence[Op]], Awaitable[list[Outcome]]]

TRIGGER = """
CREATE TABLE {schema}.refusing (message text);
CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE reason text; BEGIN
    SELECT message INTO reason FROM {schema}.refusing;
    IF FOUND THEN RAISE '%', reason; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON {schema}.entities
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse();
"""

WRITES: dict[str, Write] = {
    "append": Append(('"a"',)),
    "put": Put("doc", '"a"'),
    "acquire": Acquire("nonce", 60.0),
}
BATCHES: dict[str, Callable[[Commit, Commit], list[Op]]] = {
    "alone": lambda one, other: [one],
    "two together": lambda one, other: [one, other],
    "with a read": lambda one, other: [one, Fetch(other.entity, log=Log(last=1))],
}


def plant(server: PostgresServer, schema: str) -> None:
    server.run_sql(TRIGGER.format(schema=schema))


def refuse(server: PostgresServer, schema: str, refusing: bool = True) -> None:
    change = "INSERT INTO {}.refusing VALUES ('the outbox is full')" if refusing else (
        "DELETE FROM {}.refusing"
    )  # fmt: skip
    server.run_sql(change.format(schema))


@pytest.mark.parametrize("wire", ["on", "off"])
@pytest.mark.parametrize("colour", ["async", "blocking"])
async def test_no_write_is_answered_whose_commit_the_server_refused(
    server: PostgresServer, schema: str, wire: str, colour: str
) -> None:
    url = server.url_of(schema, wire=wire)
    engine: Any = make_engine(url) if colour == "async" else make_blocking(url)

    async def execute(ops: Sequence[Op]) -> list[Outcome]:
        if colour == "async":
            return await engine.execute(ops)  # type: ignore[no-any-return]
        return await asyncio.to_thread(engine.execute, ops)

    await engine.open() if colour == "async" else engine.open()
    plant(server, schema)
    for shape, batch in BATCHES.items():
        for name, write in WRITES.items():
            await check_refusals(execute, server, schema, batch, write, f"{shape} {name}")
    refuse(server, schema)
    assert isinstance((await execute([Fetch(Entity("n", "thread", "any"))]))[0], Fetched)
    await engine.close() if colour == "async" else engine.close()


async def check_refusals(
    execute: Execute,
    server: PostgresServer,
    schema: str,
    batch: Callable[[Commit, Commit], list[Op]],
    write: Write,
    name: str,
) -> None:
    """Refuse it as a new statement and as a prepared one."""
    for attempt in range(PREPARE_AFTER + 2):
        one, other = (
            Commit(Entity("n", "thread", f"{name} {side}"), f"op {attempt}", (write,))
            for side in ("one", "other")
        )
        refusing = attempt != 1  # one success lets a statement be prepared
        if refusing:
            refuse(server, schema)
        ops = batch(one, other)
        commits = [op for op in ops if isinstance(op, Commit)]
        if refusing:
            with pytest.raises(StatewardError) as caught:
                await execute(ops)
            assert isinstance(caught.value, StoreUnavailable)
            assert caught.value.applied == "no"
            heads = await execute([Fetch(commit.entity) for commit in commits])
            assert all(head.head.commits == int(attempt > 1) for head in heads), name  # type: ignore[union-attr]
            refuse(server, schema, refusing=False)
        else:
            outcomes = await execute(ops)
            assert all(isinstance(outcomes[ops.index(op)], Applied) for op in commits), name


async def test_turns_whose_commits_were_refused_are_stored_once_when_they_are_sent_again(
    server: PostgresServer, schema: str
) -> None:
    policy = Policy(threads="raise", write_timeout=0.5, breaker_failures=1000)
    url = server.url_of(schema)
    async with (
        stateward.open(url, spill=False, policy=policy) as one,
        stateward.open(url, spill=False, policy=policy) as two,
    ):
        await one.thread("t").append({"n": 0})
        plant(server, schema)
        refuse(server, schema)
        calls = [store.thread("t").append({"n": 1}, key="1") for store in (one, two) * 3]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, StatewardError) for end in ends), ends
        refuse(server, schema, refusing=False)
        assert server.run_sql(f"SELECT count(*) FROM {schema}.log") == [(1,)]
        await one.thread("t").append({"n": 1}, key="1")
        await two.thread("t").append({"n": 1}, key="1")
        assert (await one.thread("t").load()).messages == [{"n": 0}, {"n": 1}]
