"""The server is killed under load: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from servers.postgres import PostgresServer

import holdfast
from holdfast.errors import StoreUnavailable
from holdfast.layers.policy import Policy

CONVERSATIONS = 12
CRASHES = 10
BEFORE_A_CRASH = 60  # acknowledged writes: a crash without traffic proves nothing


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server of this test's own."""
    server = PostgresServer().start()
    yield server
    server.remove()


class Load:
    """Conversations that go on whatever happens, each append with a number of its own."""

    def __init__(self, store: holdfast.Store) -> None:
        self._store = store
        self.stored: dict[str, list[int]] = {f"t{n}": [] for n in range(CONVERSATIONS)}
        self.unknown: set[int] = set()
        self.refused = 0
        self.going = True
        self._next = 0

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.stored.values()))

    async def converse(self, id: str) -> None:
        thread = self._store.thread(id)
        while self.going:
            self._next += 1
            number = self._next
            try:
                appended = await thread.append({"n": number}, {"answer": number})
            except StoreUnavailable as error:
                self.refused += 1
                if error.applied == "unknown":
                    self.unknown.add(number)
                continue
            assert appended.status in ("stored", "duplicate")
            self.stored[id].append(number)


async def test_ten_crashes_under_load_lose_and_double_nothing(mortal: PostgresServer) -> None:
    chance = random.Random(7)
    # Short deadlines: many calls see the crash instead of waiting it out.
    policy = Policy(read_timeout=5.0, write_timeout=0.15, threads="raise")
    async with holdfast.open(mortal.url_of("crashes"), policy=policy) as store:
        load = Load(store)
        talking = [asyncio.create_task(load.converse(id)) for id in load.stored]
        for _ in range(CRASHES):
            await traffic(load, BEFORE_A_CRASH)
            await asyncio.sleep(chance.random() * 0.02)
            mortal.kill()
            await asyncio.to_thread(mortal.restart)
        await traffic(load, BEFORE_A_CRASH)
        load.going = False
        await asyncio.gather(*talking)
        assert load.unknown, "no reply was lost: the crashes hit nothing"
        for id, numbers in load.stored.items():
            window = await store.thread(id).load()
            questions = [message["n"] for message in window.messages[::2]]
            answers = [message["answer"] for message in window.messages[1::2]]
            assert questions == answers, "a turn was split"
            assert max(Counter(questions).values()) == 1, "a turn was stored twice"
            assert [n for n in questions if n in set(numbers)] == numbers, "lost or out of order"
            assert set(questions) - set(numbers) <= load.unknown, "refused, but stored"


async def traffic(load: Load, more: int) -> None:
    """Wait until so many more were acknowledged."""
    wanted = load.acknowledged + more
    async with asyncio.timeout(60):
        while load.acknowledged < wanted:  # noqa: ASYNC110 (a plain counter)
            await asyncio.sleep(0.005)
