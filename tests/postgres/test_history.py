"""A long history of appends and reads by several replicas, searched for contradictions."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import count

import pytest
from servers.postgres import PostgresServer

import stateward
from stateward.audit.checkers.histories import Status
from stateward.audit.checkers.list_append import ListAppend, ListRead, Transaction, check
from stateward.errors import StateConflictError, StoreUnavailable
from stateward.layers.policy import Policy

PROCESSES = 24
A_LIST = 150  # transactions before the next few lists are used: reads are of whole lists
AT_ONCE = 4  # lists in use
QUICK = Policy(read_timeout=5.0, write_timeout=0.5, threads="raise")


class Conversations:
    """Processes over three stores; the odd ones append only to what they have read."""

    def __init__(self, stores: list[stateward.Store], transactions: int) -> None:
        self._stores = stores
        self._left = iter(range(transactions))
        self._chance = random.Random(11)
        self._values = count()
        self.history: list[Transaction] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as all_of_them:
            for number in range(PROCESSES):
                all_of_them.create_task(self._process(number))

    async def _process(self, number: int) -> None:
        store = self._stores[number % len(self._stores)]
        for done in self._left:
            key = f"t{done // A_LIST * AT_ONCE + self._chance.randrange(AT_ONCE)}"
            invoked = time.monotonic()
            status, ops = await self._transact(store.thread(key), key, self._chance.randrange(3))
            self.history.append(Transaction(number, invoked, time.monotonic(), status, ops))

    async def _transact(
        self, thread: stateward.Thread, key: str, kind: int
    ) -> tuple[Status, tuple[ListAppend | ListRead, ...]]:
        ops: list[ListAppend | ListRead] = []
        window = None
        if kind != 0:
            try:
                window = await thread.load()
            except StoreUnavailable:
                return "fail", ()
            ops.append(ListRead(key, tuple(message["value"] for message in window.messages)))
        if kind != 1:
            ops.append(ListAppend(key, next(self._values)))
            try:
                await thread.append({"value": ops[-1].value}, expect=window)  # type: ignore[union-attr]
            except StateConflictError:
                return "fail", tuple(ops)
            except StoreUnavailable as error:
                return ("unknown" if error.applied == "unknown" else "fail"), tuple(ops)
        return "ok", tuple(ops)


async def run(url: str, transactions: int, server: PostgresServer | None = None) -> None:
    stores = [stateward.open(url, policy=QUICK) for _ in range(3)]
    conversations = Conversations(stores, transactions)
    running = asyncio.create_task(conversations.run())
    while server is not None and not running.done():
        await asyncio.sleep(1.0)
        server.kill()
        await asyncio.sleep(QUICK.write_timeout)  # a quick server is back before anybody gives up
        await asyncio.to_thread(server.restart)
    await running
    for store in stores:
        await store.close()
    history = conversations.history
    statuses = {transaction.status for transaction in history}
    assert len(history) == transactions
    assert {"ok", "fail"} <= statuses, "nobody was in anybody's way"
    assert server is None or "unknown" in statuses, "the crashes hit nothing"
    assert check(history) == []


async def test_twenty_thousand_transactions_of_three_replicas_have_one_order(url: str) -> None:
    await run(url, 20_000)


@pytest.mark.soak
async def test_a_hundred_thousand_transactions_over_crashes_have_one_order() -> None:
    server = PostgresServer().start()
    try:
        await run(server.url_of("history"), 100_000, server)
    finally:
        server.remove()
