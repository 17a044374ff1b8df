"""Holds a lock of the file until it is told to let go, by any line, or is killed.

python holder.py PATH write|checkpoint

`write` is an open write transaction, as a backup script or a SQL prompt would hold it.
`checkpoint` is the lock that SQLite holds while it copies the write-ahead log into the file
(byte 121 of the -shm file): what a process stopped in the middle of a checkpoint leaves behind.
"""

from __future__ import annotations

import fcntl
import os
import sys

import apsw
from talk import hear, say

path, lock = sys.argv[1:]
if lock == "write":
    connection = apsw.Connection(path)
    connection.set_busy_timeout(5000)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    hear()
    connection.execute("ROLLBACK")
    connection.close()
else:
    descriptor = os.open(f"{path}-shm", os.O_RDWR)
    fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 121)
    say("held")
    hear()
    os.close(descriptor)
say("released")
