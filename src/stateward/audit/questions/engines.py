"""Remedies that differ by engine: what a record is about, and what to do there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stateward.audit.record import Record

# By what the names of engines, schemes and targets have in common.
_ENGINES: Final = {
    "redis": "redis",
    "valkey": "redis",
    "postgres": "postgresql",
    "sqlite": "sqlite",
    "file": "files",
}

APPEND: Final = {
    "redis": "Append each turn with one RPUSH or XADD, or in one Lua script, instead of GET, "
    "change, SET.",
    "postgresql": "Insert a row for each turn instead of rewriting the conversation.",
    "sqlite": "Insert a row for each turn, in a transaction that starts with BEGIN IMMEDIATE, "
    "instead of rewriting the conversation.",
    "files": "Append to one file per conversation under a lock that all replicas take, or use a "
    "database: a file that is read, changed and written back loses what others wrote.",
    "": "Append instead of reading, changing and writing back.",
}
UPDATE: Final = {
    "redis": "Read, change and write in one Lua script; or WATCH the key, write within "
    "MULTI/EXEC, and try again if it was changed.",
    "postgresql": "Read with SELECT … FOR UPDATE in the transaction that writes; or write with "
    "WHERE version = the version that was read, and try again if no row matches.",
    "sqlite": "Read and write in one transaction that starts with BEGIN IMMEDIATE.",
    "files": "Read, change and write under one lock that all replicas take, or use a database.",
    "": "Change state by a function that runs again on a conflict (compare and swap), or within "
    "one transaction.",
}
KEEP: Final = {
    "redis": "Let the server sync what it acknowledges: appendonly yes and appendfsync always.",
    "postgresql": "Let the server sync what it acknowledges: fsync on and synchronous_commit on.",
    "sqlite": "Let the file sync what it acknowledges: synchronous full.",
    "files": "Write a new file, flush it to disk, then rename it over the old one.",
    "": "Acknowledge a turn only when the store has it on disk.",
}


def engine(record: Record) -> str:
    """Return the kind of engine that holds the state; "" if nothing names it."""
    settings = record.settings.engine if record.settings is not None else ""
    for text in (settings, str(record.environment.get("store", "")), record.target, record.title):
        for name, family in _ENGINES.items():
            if name in text.lower():
                return family
    return ""


def on(record: Record, remedies: Mapping[str, str]) -> str:
    """Return the remedy for the engine of this record, or the one for any engine."""
    return remedies.get(engine(record), remedies[""])
