"""Imports, and says how far it is; after each word it waits to be told to go on."""

from __future__ import annotations

import sys

from stateward.transfer.moves import entity_writer, mover


def told(what: str, done: int, total: int) -> None:
    print(done, flush=True)
    sys.stdin.readline()


entity_writer.ENTRIES = 50
mover.SAID = 20
mover.TOGETHER = 4
mover.import_from(sys.argv[1], sys.argv[2], progress=told)
print("done", flush=True)
