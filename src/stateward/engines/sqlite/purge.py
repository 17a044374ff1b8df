"""Removing a namespace at once, with all that remembers it."""

from __future__ import annotations

import apsw

from stateward.engines.sqlite.checkpoint import checkpoint
from stateward.engines.sqlite.file import File

PURGED_TOGETHER = 100  # entities in one transaction

_OF_NAMESPACE = "SELECT id FROM entities WHERE namespace = ? LIMIT ?"
_OF_ENTITY = (("log", "entity"), ("documents", "entity"), ("ops", "entity"), ("entities", "id"))


def purge(file: File, namespace: str) -> int:
    """Remove all rows of a namespace, in steps that hold up no writer; how many entities."""
    connection, count = file.connect(), 0
    try:
        while True:
            connection.execute("BEGIN IMMEDIATE")
            ids = connection.execute(_OF_NAMESPACE, (namespace, PURGED_TOGETHER)).fetchall()
            for table, column in _OF_ENTITY:
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)
            connection.execute("COMMIT")
            count += len(ids)
            if len(ids) < PURGED_TOGETHER:
                checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return count
    except apsw.Error as error:
        raise file.explain(error, "unknown", connection.system_errno) from error
    finally:
        connection.close(True)
