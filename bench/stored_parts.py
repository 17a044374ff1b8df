"""What a stored turn takes, part by part, beside the tables of OpenAI's sessions.

    python -m bench.stored_parts            # PostgreSQL and SQLite: a minute, nothing is timed

Each gets the same turns, one transaction a turn, in conversations that take turns. The peer's
tables are made by hand as its session makes them, so that nothing but tables is compared. Sizes
are means of thousands of turns: a file grows by whole pages, and over a few turns one page decides.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg

import stateward.sync
from bench.contestants.raw import encode
from bench.conversations import turn

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.postgres import PostgresServer

SHAPES = {"20 conversations of 200 messages": (20, 100), "one of 4,000 messages": (1, 2_000)}
FRAMED = 200  # turns whose pages are looked up in the WAL: fewer than fill it
PEER_POSTGRES = """
CREATE TABLE agent_sessions (
    session_id varchar PRIMARY KEY, created_at timestamp NOT NULL DEFAULT now(),
    updated_at timestamp NOT NULL DEFAULT now());
CREATE TABLE agent_messages (
    id serial PRIMARY KEY, session_id varchar NOT NULL REFERENCES agent_sessions ON DELETE CASCADE,
    message_data text NOT NULL, created_at timestamp NOT NULL DEFAULT now());
CREATE INDEX agent_messages_session_time ON agent_messages (session_id, created_at);
"""
PEER_SQLITE = """
CREATE TABLE agent_sessions (
    session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE agent_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE);
CREATE INDEX agent_messages_session_id ON agent_messages (session_id, id);
"""
RELATIONS = """SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('stateward', 'public') AND c.relkind IN ('r', 'i')"""
ROWS = {
    "stateward.log": ("entity", "seq", "at", "digest", "life", "op", "key", "body", "note"),
    "public.agent_messages": ("id", "session_id", "message_data", "created_at"),
}


def each_turn(conversations: int, turns: int) -> Iterator[tuple[str, Any]]:
    for number in range(turns):
        for conversation in range(conversations):
            yield f"c-{conversation}", turn(number)


def on_postgres(server: PostgresServer) -> None:
    for number, (shape, (conversations, turns)) in enumerate(SHAPES.items()):
        count = conversations * turns
        server.run_sql(f"CREATE DATABASE parts_{number}")
        url = server.database(f"parts_{number}")
        with stateward.sync.open(url) as store, psycopg.connect(url, autocommit=True) as peer:
            peer.execute(PEER_POSTGRES)
            before = dict(peer.execute(RELATIONS).fetchall())
            for thread, told in each_turn(conversations, turns):
                store.thread(thread, "u-1").append(*told)
                with peer.transaction():
                    _peer_append(peer, thread, told)
            after = dict(peer.execute(RELATIONS).fetchall())
            grown = _grown(before, after, count)
            theirs = {name: size for name, size in grown.items() if name.startswith("agent_")}
            ours = {name: size for name, size in grown.items() if name not in theirs}
            _show(f"PostgreSQL, {shape}: Stateward", ours)
            _show(f"PostgreSQL, {shape}: SQLAlchemySession's tables", theirs)
            for table, columns in ROWS.items():
                sizes = ", ".join(f"coalesce(sum(pg_column_size({c})), 0)" for c in columns)
                row = "sum((pg_column_size(t.*) + 7) / 8 * 8 + 4)"  # aligned, and its line pointer
                query = f"SELECT {row}, {sizes} FROM {table} t"
                rows, *parts = peer.execute(query).fetchone() or ()  # type: ignore[call-overload]
                told = {c: float(p) / count for c, p in zip(columns, parts, strict=True) if p}
                told["headers, nulls, alignment"] = float(rows) / count - sum(told.values())
                _show(f"  rows of {table}", told)


def _peer_append(peer: psycopg.Connection[Any], thread: str, told: Any) -> None:
    known = "INSERT INTO agent_sessions (session_id) VALUES (%s) ON CONFLICT DO NOTHING"
    peer.execute(known, (thread,))
    for message in told:
        kept = "INSERT INTO agent_messages (session_id, message_data) VALUES (%s, %s)"
        peer.execute(kept, (thread, encode(message)))
    peer.execute("UPDATE agent_sessions SET updated_at = now() WHERE session_id = %s", (thread,))


def on_sqlite(folder: Path) -> None:
    for number, (shape, (conversations, turns)) in enumerate(SHAPES.items()):
        mine, theirs = str(folder / f"mine-{number}.db"), str(folder / f"theirs-{number}.db")
        told = list(each_turn(conversations, turns + FRAMED // conversations))
        with stateward.sync.open(f"sqlite:///{mine}") as store:
            peer = apsw.Connection(theirs)
            peer.execute("PRAGMA journal_mode = WAL").fetchall()
            peer.execute(PEER_SQLITE)
            both = (
                ("Stateward", mine, partial(_append, store)),
                ("SQLiteSession's tables", theirs, partial(_peer_append_here, peer)),
            )
            for name, path, append in both:
                for asked in told[:-FRAMED]:
                    append(*asked)
                looking = apsw.Connection(path)
                looking.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                pages = dict(_pages(looking, conversations * turns))
                for asked in told[-FRAMED:]:
                    append(*asked)
                _show(f"SQLite, {shape}: {name}", pages)
                _show("  pages written to the WAL", _frames(looking, path), "pages")
                looking.close()
            peer.close()


def _append(store: stateward.sync.Store, thread: str, told: Any) -> None:
    store.thread(thread, "u-1").append(*told)


def _peer_append_here(peer: apsw.Connection, thread: str, told: Any) -> None:
    with peer:
        peer.execute("INSERT OR IGNORE INTO agent_sessions (session_id) VALUES (?)", (thread,))
        for message in told:
            kept = "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)"
            peer.execute(kept, (thread, encode(message)))
        touched = "UPDATE agent_sessions SET updated_at = CURRENT_TIMESTAMP"
        peer.execute(f"{touched} WHERE session_id = ?", (thread,))


def _frames(looking: apsw.Connection, path: str) -> dict[str, float]:
    """Which pages the last turns wrote: each frame of the WAL says its page."""
    names = dict(looking.execute("SELECT pageno, name FROM dbstat").fetchall())
    wal = Path(f"{path}-wal").read_bytes()
    step = 24 + int.from_bytes(wal[8:12], "big")
    numbers = (int.from_bytes(wal[at : at + 4], "big") for at in range(32, len(wal), step))
    count = Counter(names.get(number, "free") for number in numbers)
    return {name: times / FRAMED for name, times in count.most_common()}


def _pages(looking: apsw.Connection, count: int) -> Iterator[tuple[str, float]]:
    """Bytes of pages a turn, and within them what rows and indexes hold."""
    query = "SELECT name, sum(pgsize), sum(payload) FROM dbstat GROUP BY name ORDER BY 2 DESC"
    for name, size, payload in looking.execute(query).fetchall():
        if size / count >= 5:
            yield f"{name} (payload {payload / count:.0f})", size / count


def _grown(before: Mapping[str, int], after: Mapping[str, int], count: int) -> dict[str, float]:
    return {
        name: (size - before[name]) / count
        for name, size in sorted(after.items(), key=lambda item: -item[1])
        if size > before[name]
    }


def _show(title: str, parts: Mapping[str, float], unit: str = "B") -> None:
    print(f"{title}: {sum(parts.values()):,.2f} {unit} a turn")
    for name, size in parts.items():
        print(f"    {name:44} {size:10,.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--engine", choices=("postgres", "sqlite"), help="one of them alone")
    engine = parser.parse_args().engine
    payload = sum(len(encode(message).encode()) for message in turn(0))
    print(f"messages of a turn: {payload} B of JSON")
    if engine != "sqlite":
        server = PostgresServer().start()
        try:
            on_postgres(server)
        finally:
            server.remove()
    if engine != "postgres":
        with tempfile.TemporaryDirectory() as folder:
            on_sqlite(Path(folder))


if __name__ == "__main__":
    main()
