"""The tables and statements of the raw contestants: plain, indexed, one transaction a write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.conversations import WORK, Population, profile, turn

TABLES = """
CREATE TABLE messages (
    thread TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (thread, seq)
);
CREATE TABLE documents (id TEXT PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE work (user TEXT, id TEXT, state TEXT NOT NULL, PRIMARY KEY (user, id));
"""
NEWEST_SEQ = "SELECT coalesce(max(seq), 0) FROM messages WHERE thread = ?"
INSERT_TURN = "INSERT INTO messages (thread, seq, body) VALUES (?, ?, ?), (?, ?, ?)"
INSERT_NEXT = """INSERT INTO messages (thread, seq, body)
    VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE thread = ?1), ?2)"""
LAST = "SELECT body FROM messages WHERE thread = ? ORDER BY seq DESC LIMIT ?"
GET = "SELECT version, value FROM documents WHERE id = ?"
DOCUMENTS = "SELECT id, version, value FROM documents WHERE id >= ? AND id < ?"
WORKING = "SELECT id, state FROM work WHERE user = ?"
SWAP = "UPDATE documents SET version = version + 1, value = ? WHERE id = ? AND version = ?"

BUSY_SECONDS = 60  # a hundred connections wait for one lock: nobody may give up

_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def encode(value: Any) -> str:
    return _encode(value).decode()


def documents_of(user: str) -> tuple[str, str]:
    """The first id of a user's documents, and the first one after them: / comes before 0."""
    return user, f"{user}0"


def documents(population: Population) -> Iterator[tuple[str, str]]:
    """Two of each user: id and JSON."""
    for number in range(population.users if population.profiles else 0):
        user = population.user(number)
        for id_ in (user, f"{user}/settings"):
            yield id_, encode(profile(number))


def work(population: Population) -> Iterator[tuple[str, str, str]]:
    """What each user waits for: user, id and JSON."""
    for number in range(population.users if population.profiles else 0):
        yield population.user(number), f"refund-{number}", encode(WORK)


def fill(path: str, population: Population) -> None:
    """A file with these tables and conversations."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(TABLES)
    connection.execute("BEGIN")
    for thread, _user, history in population.owners():
        bodies = (encode(m) for n in range(history // 2) for m in turn(n))
        rows = ((thread, seq, body) for seq, body in enumerate(bodies, 1))
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
    insert = "INSERT INTO documents VALUES (?, 1, ?)"
    connection.executemany(insert, documents(population))
    connection.executemany("INSERT INTO work VALUES (?, ?, ?)", work(population))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
