"""The server is killed under load: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import count

import pytest
from servers.postgres import PostgresServer

import stateward
from postgres.load import POLICY, Load

BEFORE_A_CRASH = 60  # acknowledged writes


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server of this test's own."""
    server = PostgresServer().start()
    yield server
    server.remove()


async def crash(mortal: PostgresServer, times: int) -> None:
    chance = random.Random(7)
    async with stateward.open(mortal.url_of("crashes"), policy=POLICY) as store:
        load = Load(store)
        async with load.going_on():
            for crash in count():
                if crash >= times and load.unknown:
                    break
                assert crash < 2 * times + 10, "no reply was lost: the crashes hit nothing"
                await load.traffic(BEFORE_A_CRASH)
                await asyncio.sleep(chance.random() * 0.02)
                mortal.kill()
                if crash % 2:  # a quick server is back before anybody gives up: see both
                    await load.trouble(1)
                await asyncio.to_thread(mortal.restart)
            await load.traffic(BEFORE_A_CRASH)
        await load.check()


async def test_ten_crashes_under_load_lose_and_double_nothing(mortal: PostgresServer) -> None:
    await crash(mortal, 10)


@pytest.mark.soak
async def test_many_crashes_under_load_lose_and_double_nothing(mortal: PostgresServer) -> None:
    await crash(mortal, 300)


async def test_without_synchronous_commit_a_crash_loses_the_last_writes_and_keeps_the_rest_whole(
    mortal: PostgresServer,
) -> None:
    mortal.run_sql("CREATE ROLE hasty LOGIN SUPERUSER")
    mortal.run_sql("ALTER ROLE hasty SET synchronous_commit = off")
    mortal.run_sql("ALTER SYSTEM SET wal_writer_delay = '10s'")  # its last moments are long
    mortal.run_sql("SELECT pg_reload_conf()")
    url = mortal.url_of("hasty").replace("postgres@", "hasty@")
    async with stateward.open(url, policy=POLICY) as store:
        load = Load(store)
        async with load.going_on():
            await load.traffic(300)
            mortal.kill()
        await asyncio.to_thread(mortal.restart)
        assert "may lose" in (await store.health()).durability
        lost = 0
        for id, numbers in load.stored.items():
            kept = [n for n in await load.questions(id) if n not in load.unknown]
            assert kept == numbers[: len(kept)], "not the last ones"
            lost += len(numbers) - len(kept)
        assert lost > 0, "this crash was too late to show anything"
