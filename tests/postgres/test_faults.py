"""Failover, bad links, full disks: callers learn the truth in time, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from servers.postgres import PostgresServer, give
from servers.proxy import Proxy

import stateward
from postgres.conftest import make_blocking, make_engine
from postgres.load import POLICY, Load
from stateward.errors import DiskProblem, StoreUnavailable
from stateward.layers.policy import Policy
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Log, Op, Outcome

ENOUGH = 60  # acknowledged writes before and after a fault
RECOVERY_SECONDS = 5.0


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what the servers are about to do."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.02)


# --- failover ---------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary that waits for its standby, and the standby."""
    primary = PostgresServer(synchronous_standby_names="*", synchronous_commit="local").start()
    standby = PostgresServer.standby_of(primary).start()
    yield primary, standby
    standby.remove()
    primary.remove()


def url_of_both(primary: PostgresServer, standby: PostgresServer, schema: str) -> str:
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres@{hosts}/postgres?schema={schema}&target_session_attrs=read-write"


def is_in_sync(primary: PostgresServer) -> bool:
    return primary.run_sql("SELECT sync_state FROM pg_stat_replication") == [("sync",)]


async def test_a_promoted_standby_has_all_that_was_acknowledged_and_is_found(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    primary, standby = pair
    primary.run_sql("ALTER ROLE postgres SET synchronous_commit = on")
    await until(lambda: is_in_sync(primary))
    async with stateward.open(url_of_both(primary, standby, "failover"), policy=POLICY) as store:
        load = Load(store)
        assert "loss of the primary" in (await store.health()).durability
        async with load.going_on():
            await load.traffic(ENOUGH)
            primary.kill()
            await load.trouble(1)
            standby.run_sql("SELECT pg_promote()")
            await load.traffic(ENOUGH)  # it is found within a minute, however busy the machine
        await load.check()


async def test_a_name_that_leads_to_a_standby_for_a_while_leaves_no_connection_to_it(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    """As after a failover: clients are back before the name leads to the new primary."""
    primary, standby = pair
    async with Proxy(primary.port) as proxy:
        url = primary.url_of("moved").replace(f":{primary.port}/", f":{proxy.port}/")
        engine, blocking = make_engine(url), make_blocking(url)
        await engine.open()
        await asyncio.to_thread(blocking.open)

        async def in_turn(op: Op) -> list[Outcome]:
            return await engine.execute([op]) + await asyncio.to_thread(blocking.execute, [op])

        it = Entity("n", "thread", "it")
        await in_turn(Commit(it, "first", (Append(('"a"',)),)))
        proxy.lead_to(standby.port)
        proxy.cut()
        for op in (Fetch(it, log=Log(last=1)), Commit(it, "second", (Append(('"b"',)),))):
            for execute in (engine.execute, partial(asyncio.to_thread, blocking.execute)):
                with pytest.raises(StoreUnavailable) as caught:
                    await execute([op])
                assert caught.value.applied == "no" or type(op) is Commit
        proxy.lead_to(primary.port)
        for outcome in await in_turn(Commit(it, "third", (Append(('"c"',)),))):
            assert isinstance(outcome, Applied | Duplicate)
        await asyncio.to_thread(blocking.close)
        await engine.close()


async def test_a_standby_that_does_not_answer_yet_is_the_stores_failure(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    """The same code and class as "the database system is starting up"."""
    primary, standby = pair
    async with stateward.open(primary.url_of("cold")) as store:
        await store.user("u").put({"n": 1})
    standby.stop()
    standby.configure(hot_standby="off")
    standby.start_without_waiting()
    refused = "not accepting connections|starting up|not yet accepting"
    await until(lambda: "hot standby mode is disabled" in said_by(standby).lower())
    cold = stateward.open(standby.url_of("cold"), policy=Policy(0.5, 0.5, threads="raise"))
    with pytest.raises(StoreUnavailable, match=refused) as caught:
        await cold.user("u").get()
    assert caught.value.applied == "no"
    await cold.close()


def said_by(server: PostgresServer) -> str:
    """What a server says to who connects."""
    try:
        server.connect().close()
    except Exception as error:
        return str(error)
    return ""


# --- links ------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["cut", "replies", "frozen", "refused", "slow"])
async def test_a_bad_link_under_load_loses_and_doubles_nothing(
    server: PostgresServer, schema: str, fault: str
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url_of(schema).replace(f":{server.port}/", f":{proxy.port}/")
        async with stateward.open(url, policy=POLICY) as store:
            load = Load(store)
            async with load.going_on():
                for _ in range(8):
                    await load.traffic(ENOUGH)
                    await break_link(proxy, load, fault)
                    mended = time.monotonic()
                    await load.traffic(1)
                    assert time.monotonic() - mended < RECOVERY_SECONDS
                await load.traffic(ENOUGH)
            await load.check()
            if fault in ("replies", "frozen"):
                assert load.unknown, "no reply was lost: the fault hit nothing"


async def break_link(proxy: Proxy, load: Load, fault: str) -> None:
    if fault == "cut":
        proxy.cut()
    elif fault == "replies":
        proxy.cut_replies = True
        await load.trouble(5)
        proxy.cut_replies = False
        assert proxy.cuts
    elif fault == "frozen":
        proxy.freeze()
        await load.trouble(5)
        proxy.thaw()
    elif fault == "refused":
        proxy.refusing = True
        proxy.cut()
        await load.trouble(5)
        proxy.refusing = False
    else:
        proxy.delay = 0.02
        await load.traffic(ENOUGH)
        proxy.delay = 0.0


@pytest.mark.soak
async def test_a_frozen_link_ends_every_call_at_its_deadline(
    server: PostgresServer, schema: str
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url_of(schema).replace(f":{server.port}/", f":{proxy.port}/")
        async with stateward.open(
            url, policy=Policy(read_timeout=0.5, write_timeout=1.0, threads="raise")
        ) as store:
            await store.thread("t").append({"n": 1})
            proxy.freeze()
            for call, seconds in (
                (store.thread("t").load(), 0.5),
                (store.user("u").put({"n": 1}), 1.0),
                (store.context(user="u", thread="t", last=5), 0.5),
                (store.once("task", lambda: 1), 1.0),
            ):
                start = time.monotonic()
                with pytest.raises(StoreUnavailable):
                    await call
                assert time.monotonic() - start < seconds + 0.5
            proxy.thaw()
            start = time.monotonic()
            while True:
                try:
                    assert (await store.thread("t").load()).messages == [{"n": 1}]
                    break
                except StoreUnavailable:
                    assert time.monotonic() - start < RECOVERY_SECONDS


# --- disks ------------------------------------------------------------------------------

if os.getuid() == 0:  # only root may mount a small disk

    @pytest.fixture
    def small_disk() -> Iterator[Path]:
        """Not below tmp_path, which the server's user may not enter."""
        disk = Path(tempfile.mkdtemp(prefix="stateward-small-disk-"))
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=True)
            try:
                give(disk)
                disk.chmod(0o700)
                yield disk
            finally:
                subprocess.run(["umount", "-l", disk], check=True)
        finally:
            disk.rmdir()

    @pytest.mark.soak
    async def test_a_full_disk_fails_writes_and_not_reads_until_there_is_room(
        small_disk: Path,
    ) -> None:
        server = PostgresServer().start()
        try:
            server.run_sql(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
            server.run_sql("ALTER ROLE postgres SET default_tablespace = small")
            policy = stateward.Policy(threads="raise")  # not kept for later: told
            async with stateward.open(server.url_of("full"), policy=policy) as store:
                stored = await fill(store)
                assert (await store.thread("t").load(last=1)).version == stored
                server.run_sql('ALTER TABLE "full".log SET TABLESPACE pg_default')
                await store.thread("t").append({"after": "there is room"})
                window = await store.thread("t").load()
                assert window.version == stored + 1
                numbers = [message["n"] for message in window.messages[:-1]]
                assert numbers == list(range(stored))
        finally:
            server.remove()

    async def fill(store: stateward.Store) -> int:
        """Append until the disk is full; how many were stored."""
        for number in range(10_000):
            text = os.urandom(2000).hex()  # nothing that can be compressed
            try:
                await store.thread("t").append({"n": number, "text": text})
            except DiskProblem as error:
                return number if error.applied == "no" else -1
        raise AssertionError("the disk did not get full")
