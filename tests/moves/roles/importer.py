"""Imports, and says how far it is; unless it is to run freely, it waits to be told to go on."""

from __future__ import annotations

import sys

from stateward.transfer.moves import entity_writer, mover


def told(what: str, done: int, total: int) -> None:
    print(done, flush=True)
    if not FREE:
        sys.stdin.readline()


FREE = sys.argv[3:] == ["free"]
if not FREE:
    entity_writer.ENTRIES = 50
    mover.SAID = 20
    mover.TOGETHER = 4
mover.import_from(sys.argv[1], sys.argv[2], progress=told)
print("done", flush=True)
