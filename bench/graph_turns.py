"""What a turn of a LangGraph graph stores, part by part: `python -m bench.graph_turns ENGINE …`.

A turn is a question and an answer of 500 bytes each, by a compiled graph with one node and
`ainvoke`. What is counted is how much more there is after a hundred turns than after ten, for each
turn; of SQLite the pages of the file, of Valkey the memory of the thread's keys, of PostgreSQL the
size of its tables and indexes. How many bytecodes of Stateward this thread executes in one of the
next turns is counted as well: that does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

import apsw

import stateward
from bench.graphs import HOMES, TITLES, converse
from bench.homes import TESTS

BEFORE, TURNS, TRACED = 10, 100, 5
PACKAGE = str(Path(stateward.__file__).parent)
Sizes = Callable[[], Mapping[str, int]]


def of_file(url: str) -> Sizes:
    path = url.removeprefix("sqlite:///")

    def sizes() -> Mapping[str, int]:
        connection = apsw.Connection(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        pages = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
        texts = "SELECT 'texts of ' || substr(name, 1, 1) || '/', sum(length(value)) FROM documents"
        found = connection.execute(f"{pages} UNION ALL {texts} GROUP BY 1").fetchall()
        connection.close()
        return dict(found)  # type: ignore[arg-type]

    return sizes


def of_valkey(url: str) -> Sizes:
    import redis

    def sizes() -> Mapping[str, int]:
        client = redis.Redis.from_url(url)
        keys = [key for key in client.scan_iter("stateward:*", count=1000) if b"{" in key]
        sizes = {
            key.rpartition(b"}")[2].decode() or "head": int(client.memory_usage(key, samples=0))
            for key in keys
            if b"langgraph-thread" in key
        }
        client.close()
        return sizes

    return sizes


def of_postgres(url: str) -> Sizes:
    import psycopg

    def sizes() -> Mapping[str, int]:
        with psycopg.connect(url) as connection:
            asked = (
                "SELECT relname, pg_relation_size(c.oid) FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname IN ('stateward', 'pg_toast') AND relkind IN ('r', 'i', 't')"
            )
            return dict(connection.execute(asked).fetchall())

    return sizes


READERS = {"sqlite": of_file, "redis": of_valkey, "postgres": of_postgres}


class Bytecodes:
    """How many of Stateward's own this thread executes."""

    def __init__(self) -> None:
        self.count = 0

    def called(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self.count += event == "opcode"
        return self._inside


async def measure(engine: str, url: str) -> None:
    from stateward.integrations.langgraph import StatewardSaver

    sizes = READERS[engine](url)
    async with StatewardSaver.from_url(url) as saver:
        await converse(saver, "t", BEFORE)
        before = sizes()
        begun = process_time()
        await converse(saver, "t", TURNS)
        took = process_time() - begun
        after = sizes()
        executed = Bytecodes()
        sys.settrace(executed.called)
        await converse(saver, "t", TRACED)
        sys.settrace(None)
    print(
        f"{TITLES[engine]}: bytes a turn; {took / TURNS * 1000:.1f} ms of this process, then "
        f"{executed.count // TRACED:,} bytecodes of Stateward"
    )
    grown = {name: (size - before.get(name, 0)) / TURNS for name, size in after.items()}
    for name, bytes_ in sorted(grown.items(), key=lambda each: -each[1]):
        if bytes_:
            print(f"  {bytes_:8,.0f}  {name}")
    stored = sum(bytes_ for name, bytes_ in grown.items() if not name.startswith("texts of"))
    print(f"  {stored:8,.0f}  in all")


def main() -> None:
    for engine in sys.argv[1:] or HOMES:
        with tempfile.TemporaryDirectory() as folder, HOMES[engine](Path(folder)) as (url, _):
            asyncio.run(measure(engine, url))


if __name__ == "__main__":
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    main()
