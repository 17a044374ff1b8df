"""Restores, and says how far it is; after each word it waits to be told to go on."""

from __future__ import annotations

import sys

from stateward.transfer import target
from stateward.transfer.backup import restore


def told(what: str, done: int, total: int) -> None:
    if what == "restoring":
        print(f"{done}", flush=True)
        sys.stdin.readline()


target.LEASE = float(sys.argv[3])
target.BATCH = 16 * 1024
restore(sys.argv[1], sys.argv[2], progress=told)
print("done", flush=True)
