"""The newest fifty cost the same whether there are a thousand conversations or a hundred thousand.

Nothing here measures time: steps of SQLite's virtual machine, pages that PostgreSQL touches, and
commands that a Redis server carries out, those of scripts included.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hiredis import Reader
from servers.postgres import PostgresServer
from servers.redis import running

from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.fetch import reads
from stateward.engines.postgres.schema import Queries
from stateward.engines.redis.client.wire import pack
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.engines.sqlite.fetch import Reads
from stateward.engines.sqlite.file import File
from stateward.ops import List, Listed
from stateward.world import World

Counts = tuple[int, int]
NEWEST = 50
NOW = 28_000_000  # the minute of the newest; three are touched in each
ASKED = {
    "of a user": {"owner": "u"},
    "of nobody": {"owner": ""},
    "of all": {},
    "the oldest": {"reverse": True},
}


@pytest.fixture(scope="module", params=[10_000, pytest.param(100_000, marks=pytest.mark.soak)])
def counts(request: pytest.FixtureRequest) -> Counts:
    """A hundred thousand show the same as ten thousand, but take a while to be filled in."""
    return 1_000, request.param


def listing(count: int, name: str, after: str | None = None) -> List:
    asked: Any = ASKED[name]
    return List(
        f"of {count}",
        "thread",
        recent=True,
        documents=("about",),
        limit=NEWEST,
        after=after,
        **asked,
    )


def assert_flat(
    cost: Callable[[List], tuple[int, Listed]], name: str, counts: Counts, more: int = 0
) -> None:
    """The first page, and the one after it."""
    first: list[int] = []
    second: list[int] = []
    for count in counts:  # statements and scripts are ready then, and what is asked once was
        _, page = cost(listing(count, name))
        cost(listing(count, name, page.next))
    for count in counts:
        steps, page = cost(listing(count, name))
        assert (len(page.entities), page.next is None) == (NEWEST, False)
        assert all(len(found.documents) == 1 for found in page.entities)
        first.append(steps)
        steps, page = cost(listing(count, name, page.next))
        assert len(page.entities) == NEWEST
        second.append(steps)
    for short, long in (first, second):  # how rows lie on pages may make the long one cheaper
        assert 0 < long <= short + more, (first, second)


# --- SQLite -----------------------------------------------------------------------------

FILL_SQLITE = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
INSERT INTO entities (namespace, kind, name, owner, created, updated, touched, life, commits)
SELECT 'of ' || ?1, 'thread', printf('%06d', i * 7919 % ?1), CASE WHEN i % 2 THEN 'u' ELSE '' END,
       0, (?2 - i / 3) * 60 + i % 60, ?2 - i / 3, 0, 1 FROM n;
INSERT INTO documents (entity, life, name, version, stamp, updated, log, value)
SELECT id, 0, 'about', 1, 'op', 0, 0, '{}' FROM entities WHERE namespace = 'of ' || ?1;
"""


@pytest.fixture(scope="module")
def file(counts: Counts, tmp_path_factory: pytest.TempPathFactory) -> File:
    path = tmp_path_factory.mktemp("recent") / "a.db"
    engine: Any = create_sync_engine(parse(f"sqlite:///{path}"), World())
    engine.open()
    engine.close()
    file = File(str(path), relaxed=True, migrate=False, world=World())
    connection = file.connect()
    for count in counts:
        for statement in FILL_SQLITE.strip().split(";\n")[:2]:
            connection.execute(statement, (count, NOW) if "?2" in statement else (count,))
    connection.close()
    return file


@pytest.mark.parametrize("name", ASKED)
def test_sqlite_takes_the_same_steps(name: str, counts: Counts, file: File) -> None:
    steps = 0

    def counted() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = file.connect()
    connection.set_progress_handler(counted, 1)

    def cost(op: List) -> tuple[int, Listed]:
        nonlocal steps
        steps = 0
        (page,) = Reads(connection).read_all([op], World().now())
        assert isinstance(page, Listed)
        return steps, page

    assert_flat(cost, name, counts)
    connection.close()


# --- PostgreSQL -------------------------------------------------------------------------

FILL_POSTGRES = """
INSERT INTO stateward.entities
    (namespace, kind, name, owner, expires, created, updated, touched, commits)
SELECT 'of ' || %(count)s, 'thread', to_char(i * 7919 %% %(count)s, 'FM000000'),
       CASE WHEN i %% 2 = 1 THEN 'u' ELSE '' END, NULL, 0, (%(now)s - i / 3) * 60 + i %% 60,
       %(now)s - i / 3, 1
FROM generate_series(0, %(count)s - 1) AS i;
"""
FILL_DOCUMENTS = """
INSERT INTO stateward.documents (entity, life, name, version, stamp, updated, log, value)
SELECT id, 0, 'about', 1, 'op', 0, 0, '{}' FROM stateward.entities;
"""


@pytest.fixture(scope="module")
def database(counts: Counts) -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off").start()

    async def migrate() -> None:
        engine = create_engine(parse(server.url), World())
        await engine.open()
        await engine.close()

    asyncio.run(migrate())
    with psycopg.connect(server.url, autocommit=True) as connection:
        for count in counts:
            connection.execute(FILL_POSTGRES, {"count": count, "now": NOW})
        connection.execute(FILL_DOCUMENTS)
        connection.execute("VACUUM ANALYZE stateward.entities, stateward.documents")
    yield server
    server.remove()


@pytest.mark.verify
@pytest.mark.parametrize("name", ASKED)
def test_postgres_touches_the_same_pages_but_for_the_height_of_its_indexes(
    name: str, counts: Counts, database: PostgresServer
) -> None:
    with psycopg.connect(database.url) as connection:
        register(connection)

        def cost(op: List) -> tuple[int, Listed]:
            statement = reads([], [(0, op)], Queries("stateward"))
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.query}"
            (row,) = connection.execute(explain, statement.params).fetchall()  # type: ignore[arg-type]
            plan = row[0][0]["Plan"]
            assert "touched" in str(plan), "by the index of what was touched"
            found: list[Any] = [None]
            rows = connection.execute(statement.query, statement.params).fetchall()  # type: ignore[arg-type]
            statement.read(rows, found)
            return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], found[0]

        # Each of the documents is looked up in an index of its own, which is one level higher.
        assert_flat(cost, name, counts, more=2 * NEWEST + 20)


# --- Redis ------------------------------------------------------------------------------

FILL_REDIS = """
local count, now = tonumber(ARGV[1]), tonumber(ARGV[2])
local space = 'of%20' .. ARGV[1]
for i = 0, count - 1 do
  local id, minute = string.format('%06d', i * 7919 % count), now - math.floor(i / 3)
  local owner = i % 2 == 1 and 'u' or ''
  local head = 'stateward:{' .. space .. ':thread:' .. id .. '}'
  local tip = struct.pack('<dddddddI4', 0, 1, minute * 60 + i % 60, 0, 0, 0, 0, 0)
  redis.call('HSET', head, 'tip', tip, 'created', '0', 'owner', owner, 'life', '0')
  redis.call('HSET', head .. ':docs', '=about', '{}', '@about', '1 0 0 op')
  redis.call('ZADD', 'stateward:kind:{' .. space .. ':thread}:touched', minute, id)
  redis.call('ZADD', 'stateward:owner:{' .. space .. ':' .. owner .. '}:touched:thread', minute, id)
end
"""


@pytest.mark.verify
def test_a_redis_server_carries_out_the_same_commands(counts: Counts, tmp_path: Path) -> None:
    with (
        running(tmp_path, "valkey", "--appendonly", "no") as server,
        socket.create_connection(("127.0.0.1", server.port)) as raw,
    ):
        for count in counts:
            assert not isinstance(asked(raw, "EVAL", FILL_REDIS, 0, count, NOW), Exception)
        engine: Any = create_sync_engine(parse(server.url), World())
        engine.open()

        def cost(op: List) -> tuple[int, Listed]:
            before = carried_out(raw)
            (page,) = engine.execute([op])
            return carried_out(raw) - before - 1, page  # the first look counts itself

        for name in ASKED:
            assert_flat(cost, name, counts)
        engine.close()


def carried_out(raw: socket.socket) -> int:
    """How many commands the server has carried out; those that scripts call are commands too."""
    stats: bytes = asked(raw, "INFO", "commandstats")
    return sum(int(number) for number in re.findall(rb":calls=(\d+)", stats))


def asked(raw: socket.socket, *command: str | int) -> Any:
    raw.sendall(pack([command]))
    reader = Reader()
    while (reply := reader.gets()) is False:
        reader.feed(raw.recv(1 << 16))
    return reply
