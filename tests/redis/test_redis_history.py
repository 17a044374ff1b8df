"""Thousands of appends and reads by three replicas, searched for any that contradict each other."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import count
from pathlib import Path

import pytest
from servers.redis import RedisServer, running
from servers.redis_cluster import running_cluster

import stateward
from stateward.audit.checkers.histories import Status
from stateward.audit.checkers.list_append import ListAppend, ListRead, Transaction, check
from stateward.errors import StateConflictError, StoreUnavailable
from stateward.world import World

AGENTS = 24
LISTS = 4  # in use at the same time
A_LIST = 150  # transactions, then other lists are used: a read is of a whole list
POLICY = stateward.Policy(read_timeout=5.0, write_timeout=0.5, threads="raise")

Ops = tuple[ListAppend | ListRead, ...]


class Agents:
    """Each reads, appends, or appends to what it has just read, over and over."""

    def __init__(self, stores: list[stateward.Store], transactions: int) -> None:
        self.history: list[Transaction] = []
        self._stores = stores
        self._turns = iter(range(transactions))
        self._values = count()
        self._chance = random.Random(17)

    async def run(self) -> None:
        await asyncio.gather(*(self._agent(number) for number in range(AGENTS)))

    async def _agent(self, number: int) -> None:
        store = self._stores[number % len(self._stores)]
        for turn in self._turns:
            id = f"list {turn // A_LIST * LISTS + self._chance.randrange(LISTS)}"
            begun = time.monotonic()
            status, ops = await self._transaction(store.thread(id))
            self.history.append(Transaction(number, begun, time.monotonic(), status, ops))

    async def _transaction(self, thread: stateward.Thread) -> tuple[Status, Ops]:
        reads, appends = self._chance.choice(((True, False), (False, True), (True, True)))
        ops: Ops = ()
        window: stateward.Window | None = None
        try:
            if reads:
                window = await thread.load()
                seen = tuple(message["value"] for message in window.messages)
                ops = (ListRead(thread.id, seen),)
            if appends:
                value = next(self._values)
                ops = (*ops, ListAppend(thread.id, value))
                await thread.append({"value": value}, expect=window)
        except StateConflictError:
            return "fail", ops
        except StoreUnavailable as error:
            return ("unknown" if error.applied == "unknown" else "fail"), ops
        return "ok", ops


async def have_one_order(url: str, transactions: int, server: RedisServer | None = None) -> None:
    """With a `server` it is killed every second."""
    namespace = World().new_id()
    stores = [stateward.open(url, namespace=namespace, policy=POLICY) for _ in range(3)]
    agents = Agents(stores, transactions)
    running = asyncio.create_task(agents.run())
    while server is not None and not running.done():
        await asyncio.sleep(1.0)  # the time between two crashes
        server.kill()
        await asyncio.sleep(POLICY.write_timeout)  # a quick server is back before anybody gives up
        await asyncio.to_thread(server.start)
    await running
    for store in stores:
        await store.close()
    statuses = {transaction.status for transaction in agents.history}
    assert len(agents.history) == transactions
    assert {"ok", "fail"} <= statuses, "no two of them ever met"
    assert server is None or "unknown" in statuses, "the crashes hit nothing"
    assert check(agents.history) == []


async def test_twenty_thousand_transactions_of_three_replicas_have_one_order(
    valkey: RedisServer,
) -> None:
    await have_one_order(valkey.url, 20_000)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["valkey", "redis"])
async def test_a_hundred_thousand_transactions_over_crashes_have_one_order(
    tmp_path: Path, name: str
) -> None:
    with running(tmp_path / name, name) as server:
        await have_one_order(server.url, 100_000, server)


@pytest.mark.soak
async def test_a_hundred_thousand_transactions_on_a_cluster_have_one_order(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "valkey", replicas=1) as cluster:
        await have_one_order(cluster.url, 100_000)
