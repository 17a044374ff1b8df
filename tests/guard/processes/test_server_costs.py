"""What a turn costs the server and the disk, against limits a little above what it takes today.

Commands, statements and bytes: counted by the servers themselves, and the same on any machine,
however busy. Instructions, which say more, take valgrind: see bench/README.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import redis
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running
from servers.redis_cluster import running_cluster

import stateward
import stateward.sync

TURN = ({"role": "user", "content": "q" * 480}, {"role": "assistant", "content": "a" * 480})
BATCH = 50
ALONE, BATCHES = 200, 8  # appends that are counted, and batches of appends
PATIENT = stateward.Policy(read_timeout=100.0, write_timeout=100.0, threads="raise")
PAGE = 4096
TURN_BYTES = 1_000  # that no store can do without

Commands = dict[str, int]


def opened(url: str, namespace: str = "costs") -> stateward.Store:
    """One that asks for nothing but what it is asked for."""
    return stateward.open(url, policy=PATIENT, heartbeat=None, spill=False, namespace=namespace)


async def alone(threads: list[stateward.Thread], count: int = ALONE) -> None:
    for number in range(count):
        await threads[number % len(threads)].append(*TURN)


async def together(threads: list[stateward.Thread], count: int = BATCHES) -> None:
    """Each time the first goes alone, and the others travel together behind it."""
    for _ in range(count):
        await asyncio.gather(*[thread.append(*TURN) for thread in threads])


async def begun(store: stateward.Store) -> list[stateward.Thread]:
    threads = [store.thread(f"t-{number}", user=f"u-{number}") for number in range(BATCH)]
    await together(threads, 2)
    return threads


# --- Valkey -----------------------------------------------------------------------------

# Of an append: HMGET and HSET of the head, RPUSH of the bodies and of the mark, PUBLISH.
MOST_COMMANDS = 5
MOST_AOF_ALONE, MOST_AOF_TOGETHER = 1_430, 1_400  # 1,363 and 1,335 on 18 November 2026


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    # Not synced: the file says what was written, and no write waits for an earlier sync.
    settings = ("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
    with running(tmp_path_factory.mktemp("costs"), "valkey", *settings) as server:
        yield server


def commands(asking: Any) -> Commands:
    """How often each was called, those inside of scripts included, without what this asks."""
    said = asking.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): value["calls"] for name, value in said.items()}
    return {name: count for name, count in calls.items() if name not in ("info", "hello", "ping")}


def more(before: Commands, after: Commands) -> Commands:
    found = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in found.items() if count}


def inside(found: Commands) -> int:
    """What the scripts call, without the call of the script and what it asks once."""
    return sum(count for name, count in found.items() if name not in ("evalsha", "eval", "time"))


async def test_an_append_is_one_script_of_few_commands(valkey: RedisServer) -> None:
    with redis.Redis(port=valkey.port) as asking:
        async with opened(valkey.url) as store:
            threads = await begun(store)
            start = commands(asking)
            await alone(threads)
            after_alone = commands(asking)
            await together(threads)
            after_batches = commands(asking)
    lone, batched = more(start, after_alone), more(after_alone, after_batches)
    assert lone["evalsha"] == ALONE
    assert inside(lone) <= 1.02 * MOST_COMMANDS * ALONE, lone  # a minute that ends tells the index
    # One for the first, and at most two for all the others, which share two connections.
    assert batched["evalsha"] <= 3 * BATCHES
    assert inside(batched) <= 1.3 * MOST_COMMANDS * BATCH * BATCHES, batched


async def test_a_turn_writes_few_bytes_to_the_append_only_file(valkey: RedisServer) -> None:
    def written() -> int:
        size: int = asking.info("persistence")["aof_current_size"]
        return size

    with redis.Redis(port=valkey.port) as asking:
        async with opened(valkey.url, "bytes") as store:
            threads = await begun(store)
            start = written()
            await alone(threads)
            after_alone = written()
            await together(threads)
            after_batches = written()
    assert TURN_BYTES < (after_alone - start) / ALONE <= MOST_AOF_ALONE
    share = (after_batches - after_alone) / (BATCH * BATCHES)
    assert TURN_BYTES < share <= MOST_AOF_TOGETHER


# --- a cluster --------------------------------------------------------------------------

NEW = 300
MOST_SHARE = 0.45  # of the commands of a server alone, on each of three primaries


async def begin_all(url: str) -> None:
    async with opened(url, "new") as store:
        await asyncio.gather(
            *[store.thread(f"new-{n}", user=f"u-{n}").append(*TURN) for n in range(NEW)]
        )


async def test_new_conversations_give_each_primary_a_share_of_the_work(
    valkey: RedisServer, tmp_path: Path
) -> None:
    """Their index too: nothing of a namespace is at one node alone."""

    def counted(nodes: Iterable[RedisServer]) -> list[Commands]:
        found = []
        for node in nodes:
            with redis.Redis(port=node.port) as asking:
                found.append(commands(asking))
        return found

    def work(before: list[Commands], after: list[Commands]) -> list[int]:
        others = ("cluster", "client", "evalsha", "eval", "script", "time")
        found = [more(*pair) for pair in zip(before, after, strict=True)]
        return [
            sum(count for name, count in each.items() if name.partition("|")[0] not in others)
            for each in found
        ]

    start = counted([valkey])
    await begin_all(valkey.url)
    (one,) = work(start, counted([valkey]))
    with running_cluster(tmp_path, "valkey", replicas=0) as cluster:
        start = counted(cluster.nodes)
        await begin_all(cluster.url)
        shares = [each / one for each in work(start, counted(cluster.nodes))]
    assert sum(shares) > 0.9, "they do the work of one"
    assert max(shares) <= MOST_SHARE, shares


# --- PostgreSQL -------------------------------------------------------------------------

MOST_WAL_ALONE, MOST_WAL_TOGETHER = 1_850, 1_700  # 1,673 to 1,755, and 1,558 to 1,598
STATEMENT = re.compile(r"LOG:  execute [^:]*: ")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(
        fsync="off",
        autovacuum="off",
        full_page_writes="off",
        log_statement="all",
        log_min_messages="log",
        log_line_prefix="",
        max_wal_size="4GB",
    ).start()
    yield server
    server.remove()


class Statements:
    """What the server was asked for, by its log: it says a statement before it executes it."""

    def __init__(self, server: PostgresServer) -> None:
        self._log = server._folder / "log"
        self._place = self._log.stat().st_size

    def new(self) -> list[str]:
        """Since the last time."""
        with self._log.open("rb") as log:
            log.seek(self._place)
            text = log.read().decode()
        self._place += len(text.encode())
        return STATEMENT.split(text)[1:]


async def test_each_everyday_call_is_one_statement(postgres: PostgresServer) -> None:
    async with opened(postgres.url_of("statements")) as store:
        threads = await begun(store)
        thread, user = threads[0], store.user("u-0")
        await user.put({"name": "Noor"})
        await thread.load(last=20)
        asked = Statements(postgres)
        calls = {
            "append": lambda: thread.append(*TURN),
            "append with a key": lambda: thread.append(*TURN, key="k"),
            "last 20": lambda: thread.load(last=20),
            "context": lambda: store.context(user="u-0", thread="t-0", last=20),
            "user get": lambda: user.get(),
            "user put": lambda: user.put({"name": "Kaya"}),
        }
        found = {}
        for name, call in calls.items():
            await call()
            found[name] = len(asked.new())
        await asyncio.gather(*[each.append(*TURN) for each in threads])
        found["appends together"] = len(asked.new())
    assert found == dict.fromkeys(calls, 1) | {"appends together": 2}


async def test_the_first_load_of_a_thread_is_one_plain_statement(postgres: PostgresServer) -> None:
    """Not the statement for everything: to get that ready takes the server twice as long."""
    url = postgres.url_of("first")
    async with opened(url) as store:
        await store.thread("t", user="u").append(*TURN * 30)
    async with opened(url) as store:
        await store.thread("other", user="u").load()  # which makes the connection
        asked = Statements(postgres)
        window = await store.thread("t", user="u").load(last=20)
        (statement,) = asked.new()
    assert len(window.messages) == 20
    assert " UNION ALL " in statement, "the newest messages, and how it begins"
    assert "first.documents" not in statement, "that for everything looks for documents, too"


async def test_a_turn_writes_little_wal(postgres: PostgresServer) -> None:
    def written() -> int:
        return int(asking.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchall()[0][0])

    with postgres.connect() as asking:
        async with opened(postgres.url_of("wal")) as store:
            threads = await begun(store)
            start = written()
            await alone(threads)
            after_alone = written()
            await together(threads)
            after_batches = written()
    assert TURN_BYTES < (after_alone - start) / ALONE <= MOST_WAL_ALONE
    share = (after_batches - after_alone) / (BATCH * BATCHES)
    assert TURN_BYTES < share <= MOST_WAL_TOGETHER


# --- SQLite -----------------------------------------------------------------------------

MOST_PAGES = 4.1  # written by an append of one caller: 3.79 to 3.95
MOST_STORED = 1_290  # bytes of the file: 1,204 to 1,229
CONVERSATIONS, TURNS = 20, 100


def test_a_turn_writes_and_stores_few_pages_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    url = f"sqlite:///{path}?durability=relaxed"
    with stateward.sync.open(url, heartbeat=None, spill=False) as store:
        threads = [store.thread(f"t-{number}", user="u") for number in range(CONVERSATIONS)]
        looking = apsw.Connection(str(path))
        looking.set_busy_timeout(10_000)

        def append(turns: int) -> None:
            for _ in range(turns):
                for thread in threads:
                    thread.append(*TURN)

        def size() -> int:
            looking.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return path.stat().st_size

        append(1)
        before = size()
        append(TURNS)
        stored = (size() - before) / (TURNS * CONVERSATIONS)
        append(10)  # fewer pages than make a checkpoint due
        frames = Path(f"{path}-wal").stat().st_size / (PAGE + 24) / (10 * CONVERSATIONS)
        looking.close()
    assert 1.0 < frames <= MOST_PAGES
    assert TURN_BYTES < stored <= MOST_STORED
