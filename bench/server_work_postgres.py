"""What a call costs the PostgreSQL server: instructions, counted by callgrind, WAL and table space.

    python -m bench.server_work_postgres                  # all calls: two minutes, with valgrind
    python -m bench.server_work_postgres --only "append"  # those whose name has this in it
    python -m bench.server_work_postgres --functions 30   # and in which functions of the server

Times move with whatever else the machine does; these figures agree within 5 % from run to run. A
call's cost is the difference between a session that makes many calls and one that makes few, by
what it makes more: what a session costs by itself is in both.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.contestants.raw import documents, documents_of, encode, work
from bench.contestants.raw_psycopg import APPEND, CONTEXT, TABLES
from bench.contestants.raw_psycopg import LAST as NEWEST
from bench.conversations import LAST, WORK, Population, profile, turn
from stateward.engine import SyncEngine
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Commit,
    Entity,
    Fence,
    Fetch,
    List,
    Log,
    Put,
    Release,
    SetHead,
)
from stateward.state.workflow_record import READING
from stateward.sync.engines.postgres import pool
from stateward.world import World

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.postgres import PostgresServer

THREADS = 50
HISTORY = 100
FEW, MANY = 8, 24  # batches a session; statements are prepared and planned within the few
FEW_ALONE, MANY_ALONE = 8, 308
WORLD = World()

pool.ANSWER_SECONDS = 600.0  # a counted server takes fifty times as long


class CountedServer(PostgresServer):
    """A server whose backends can write down, when they end, what they have executed."""

    counting = False  # from the next start on

    def _command(self) -> list[str]:
        command = super()._command()
        if not self.counting:
            return command
        counts = f"--callgrind-out-file={self._folder}/counts.%p"
        return ["valgrind", "-q", "--tool=callgrind", counts, *command]

    def counts(self) -> set[Path]:
        return set(self._folder.glob("counts.*"))


class Call(NamedTuple):
    """Something to count: what one session does, so many times, and how many calls each is."""

    name: str
    session: Callable[[str, int], None]
    calls: int = 1


class Cost(NamedTuple):
    """What one call costs."""

    name: str
    instructions: float
    wal: float
    stored: float  # by which the database grew
    counts: Path  # of the longer session


def entity(number: int) -> Entity:
    return Entity("default", "thread", f"s-{number}")


def append(number: int, key: str | None = None) -> Commit:
    bodies = tuple(encode(message) for message in turn(number))
    return Commit(entity(number), WORLD.new_op(), (Append(bodies, key),), owner="", retain=2.6e6)


@contextmanager
def engine(url: str) -> Iterator[SyncEngine]:
    opened: SyncEngine = create_sync_engine(parse(url + "?migrate=off"), WORLD)
    opened.open()
    yield opened
    opened.close()


def fill(url: str) -> None:
    create_sync_engine(parse(url), WORLD).migrate()
    with engine(url) as opened:
        for _ in range(HISTORY // 2):
            opened.execute([append(number) for number in range(THREADS)])
        for number in range(THREADS):
            opened.execute(knowledge(number))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES)  # type: ignore[call-overload]
        connection.execute("CREATE TABLE tasks (id text PRIMARY KEY, status text, result text)")
        for number in range(THREADS):
            for _ in range(HISTORY // 2):
                connection.execute(APPEND, raw_append(number))  # type: ignore[call-overload]
        people = Population(users=THREADS)
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO documents VALUES (%s, 1, %s)", documents(people))
        cursor.executemany("INSERT INTO work VALUES (%s, %s, %s)", work(people))
        connection.execute("VACUUM ANALYZE")


def knowledge(number: int) -> list[Commit]:
    """Two documents of a user, and unfinished work."""
    user, text = f"u-{number}", encode(profile(number))
    kept = (Put("default", text), Put("settings", text))
    begun = (SetHead(status="active"), Put("state", encode(WORK)))
    refund = Entity("default", "workflow", f"refund-{number}")
    return [
        Commit(Entity("default", "user", user), WORLD.new_op(), kept, owner=user),
        Commit(refund, WORLD.new_op(), begun, owner=user),
    ]


def raw_append(number: int) -> dict[str, str]:
    question, answer = (encode(message) for message in turn(number))
    return {"thread": f"s-{number}", "question": question, "answer": answer}


def batches(url: str, times: int) -> None:
    with engine(url) as opened:
        for _ in range(times):
            opened.execute([append(number) for number in range(THREADS)])


def keyed_batches(url: str, times: int) -> None:
    with engine(url) as opened:
        for _ in range(times):
            opened.execute([append(number, WORLD.new_op()) for number in range(THREADS)])


def alone(url: str, times: int) -> None:
    with engine(url) as opened:
        for time in range(times):
            opened.execute([append(time % THREADS)])


def raw_alone(url: str, times: int) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for time in range(times):
            connection.execute(APPEND, raw_append(time % THREADS), binary=True)  # type: ignore[call-overload]


def created(url: str, times: int) -> None:
    """First appends of new threads."""
    with engine(url) as opened:
        for _ in range(times):
            new = Entity("default", "thread", WORLD.new_op())
            bodies = tuple(encode(message) for message in turn(1))
            opened.execute([Commit(new, WORLD.new_op(), (Append(bodies),), owner="", retain=2.6e6)])


def last(url: str, times: int) -> None:
    with engine(url) as opened:
        for time in range(times):
            opened.execute([Fetch(entity(time % THREADS), log=Log(last=LAST))])


def raw_last(url: str, times: int) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for time in range(times):
            found = connection.execute(NEWEST, (f"s-{time % THREADS}", LAST), binary=True)  # type: ignore[call-overload]
            assert len(found.fetchall()) == LAST


def last_together(url: str, times: int) -> None:
    with engine(url) as opened:
        for _ in range(times):
            opened.execute([Fetch(entity(n), log=Log(last=LAST)) for n in range(THREADS)])


def once(url: str, times: int) -> None:
    """What `store.once` asks for a new task: a look, a claim and a finish."""
    read = ("call", "result", "error", "deaths")
    call = '{"name":"list","fingerprint":"c3228f8cf811caaf","args":[],"kwargs":{}}'
    with engine(url) as opened:
        for _ in range(times):
            it, nonce = Entity("default", "task", WORLD.new_op()), WORLD.new_op()
            opened.execute([Fetch(it, documents=read)])
            begun = SetHead(status="running", label="list", due_in=30.0)
            writes = (Acquire(nonce, 30.0, "host:1"), begun, Put("call", call))
            claim = Commit(it, WORLD.new_op(), writes, (Absent(),), retain=2.6e6, reading=read)
            (claimed,) = opened.execute([claim])
            assert isinstance(claimed, Applied)
            assert claimed.lease is not None
            held = (claimed.lease.token, nonce)
            ended = SetHead(status="completed", due=0, retain=2.6e6)
            done = (Put("result", '{"value":[]}'), ended, Release(*held))
            opened.execute([Commit(it, WORLD.new_op(), done, (Fence(*held),))])


def raw_once(url: str, times: int) -> None:
    """The least that a task takes by hand: two statements, no lease and no memory."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for _ in range(times):
            task = WORLD.new_op()
            connection.execute("INSERT INTO tasks VALUES (%s, 'running', NULL)", (task,))
            done = "UPDATE tasks SET status = 'done', result = %s WHERE id = %s"
            connection.execute(done, ("[]", task))


def first_load(url: str, times: int) -> None:
    """What a process asks for that has not read the thread before: also how it begins."""
    with engine(url) as opened:
        for time in range(times):
            it = entity(time % THREADS)
            beginning = Log(first=4, details=True)
            opened.execute([Fetch(it, log=Log(last=LAST)), Fetch(it, log=beginning)])


def context(url: str, times: int) -> None:
    with engine(url) as opened:
        for time in range(times):
            user = f"u-{time % THREADS}"
            found = opened.execute(
                [
                    Fetch(entity(time % THREADS), log=Log(last=LAST)),
                    Fetch(Entity("default", "user", user), user, all_documents=True),
                    List("default", "workflow", user, status="active", documents=READING),
                ]
            )
            assert len(found) == 3


def raw_context(url: str, times: int) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for time in range(times):
            user = f"u-{time % THREADS}"
            asked = (f"s-{time % THREADS}", LAST, *documents_of(user), user)
            found = connection.execute(CONTEXT, asked, binary=True).fetchall()  # type: ignore[call-overload]
            assert len(found) == LAST + 3


CALLS = (
    Call("append, one caller, driver by hand", raw_alone),
    Call("append, one caller", alone),
    Call(f"append, in a batch of {THREADS}", batches, THREADS),
    Call(f"append with a key, in a batch of {THREADS}", keyed_batches, THREADS),
    Call("first append of a thread, one caller", created),
    Call(f"last {LAST}, one caller, driver by hand", raw_last),
    Call(f"last {LAST}, one caller", last),
    Call(f"last {LAST}, in a batch of {THREADS}", last_together, THREADS),
    Call(f"last {LAST}, first load in a process", first_load),
    Call("context, one caller, driver by hand", raw_context),
    Call("context, one caller", context),
    Call("task that runs once, driver by hand", raw_once),
    Call("task that runs once", once),
)


def measure(server: CountedServer, call: Call, url: str) -> Cost:
    least, most = (FEW, MANY) if call.calls > 1 else (FEW_ALONE, MANY_ALONE)
    few, many = (_session(server, call, url, times) for times in (least, most))
    more = (most - least) * call.calls
    instructions, wal, stored = ((many[i] - few[i]) / more for i in range(3))
    return Cost(call.name, instructions, wal, stored, many[3])


def _session(server: CountedServer, call: Call, url: str, times: int) -> tuple[int, int, int, Path]:
    """Instructions, bytes of WAL and of tables, and counts of a session with so many calls."""
    with psycopg.connect(url, autocommit=True) as watching:
        before, start, size = server.counts(), _number(watching, WAL), _number(watching, SIZE)
        call.session(url, times)
        while watching.execute(OTHERS).fetchone() != (0,):
            pass  # a backend that ends writes its counts first
        written, grown = _number(watching, WAL) - start, _number(watching, SIZE) - size
        (mine,) = server.counts() - before  # blocking engines have one connection for one caller
    return _total(mine), written, grown, mine


OTHERS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'"
SIZE = "SELECT pg_database_size(current_database())"


def _number(connection: psycopg.Connection[Any], query: str) -> int:
    row = connection.execute(query).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def _total(path: Path) -> int:
    return sum(int(count) for count in re.findall(r"^totals: (\d+)", path.read_text(), re.M))


def _show_functions(counts: Path, most: int) -> None:
    """Of a session, with all that it did."""
    command = ["callgrind_annotate", str(counts)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if re.match(r"[ \d,]+\(", line)]
    print("\n".join(line.partition(" [")[0] for line in lines[:most]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", default="", help="calls whose name has this in it")
    parser.add_argument("--functions", type=int, default=0, help="show where it goes, so many")
    asked = parser.parse_args()
    server = CountedServer(autovacuum="off", full_page_writes="off", max_wal_size="4GB").start()
    try:
        fill(server.url)
        server.stop()
        server.counting = True
        server.start()
        for call in CALLS:
            if asked.only not in call.name:
                continue
            cost = measure(server, call, server.url)
            figures = f"{cost.instructions:12,.0f} {cost.wal:8,.0f} B {cost.stored:8,.0f} B"
            print(f"{cost.name:44} {figures}", flush=True)
            if asked.functions:
                _show_functions(cost.counts, asked.functions)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
