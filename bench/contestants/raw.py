"""The tables and statements of the raw contestants: plain, indexed, one transaction a write."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from bench.conversations import Population, profile, turn

TABLES = """
CREATE TABLE messages (
    thread TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (thread, seq)
);
CREATE TABLE documents (id TEXT PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
"""
NEWEST_SEQ = "SELECT coalesce(max(seq), 0) FROM messages WHERE thread = ?"
INSERT_TURN = "INSERT INTO messages (thread, seq, body) VALUES (?, ?, ?), (?, ?, ?)"
INSERT_NEXT = """INSERT INTO messages (thread, seq, body)
    VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE thread = ?1), ?2)"""
LAST = "SELECT body FROM messages WHERE thread = ? ORDER BY seq DESC LIMIT ?"
GET = "SELECT version, value FROM documents WHERE id = ?"
SWAP = "UPDATE documents SET version = version + 1, value = ? WHERE id = ? AND version = ?"

BUSY_SECONDS = 60  # a hundred connections wait for one lock: nobody may give up

_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def encode(value: Any) -> str:
    return _encode(value).decode()


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
    if population.profiles:
        profiles = ((population.user(n), 1, encode(profile(n))) for n in range(population.users))
        connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", profiles)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
