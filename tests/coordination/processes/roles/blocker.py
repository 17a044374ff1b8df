"""Holds a lock of the store's file when it is told so, until it is told to let go.

facts: path, effects, lock

write: an exclusive transaction: nobody else can write, so the store is away for writers.
checkpoint: what SQLite holds while it copies the write-ahead log into the file (byte 121 of the
-shm file): another process that is at it, or was stopped in the middle.
"""

from __future__ import annotations

import fcntl
import os

import apsw
from talk import facts, hear, say

say(ready=True)
hear()
if facts["lock"] == "write":
    connection = apsw.Connection(facts["path"])
    connection.set_busy_timeout(60_000)
    connection.execute("BEGIN EXCLUSIVE")
    say(held=True)
    hear()
    connection.execute("ROLLBACK")
    connection.close()
else:
    descriptor = os.open(f"{facts['path']}-shm", os.O_RDWR)
    fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 121)
    say(held=True)
    hear()
    os.close(descriptor)
say(released=True)
