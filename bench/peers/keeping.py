"""What is kept: bytes stored and written for a turn, and memory for an open conversation.

    python -m bench.peers.keeping ENGINE CONTESTANT PLACE

is a process of one contestant, which opens conversations and says how much it grew by each.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.conversations import LAST, Population, turn
from bench.driving import Ready, Tasks, Threads
from bench.peers.places import Places
from bench.peers.table import STATE, Entry

CONVERSATIONS, TURNS = 4, 50  # each conversation grows from nothing to 100 messages
LONG = 1_000  # messages of one that grows by some turns more
# Files and a server's memory grow in steps: over few turns one page more or less would decide.
LONG_TURNS = {"sqlite": 400, "postgres": 400, "redis": 1_000}
HEAVY, HEAVY_TURNS = 10_000, 40  # bytes a turn of those that write the conversation again each time
OPEN, BATCHES = 50, 3  # conversations opened between two looks at the memory
NOTHING = Population(users=1, profiles=False)


def stored(
    engine: str, entries: Sequence[Entry], places: Places, *, turns: int, long: int
) -> Iterator[dict[str, Any]]:
    """Bytes for each turn, in short conversations and in long ones."""
    for entry in entries:
        short = _grown(entry, places, NOTHING, [f"c-{n}" for n in range(CONVERSATIONS)], turns)
        filled = Population({long: 1}, users=1, profiles=False)
        later = _grown(entry, places, filled, filled.threads(long), _more(engine, turns, short[0]))
        yield {
            "engine": engine,
            "contestant": entry.load().name,
            "role": entry.role,
            "colour": entry.load().colour,
            "messages": 2 * turns,
            "stored": round(short[0]),
            "written": round(short[1]),
            "stored_long": round(later[0]),
            "written_long": round(later[1]),
        }


def _more(engine: str, turns: int, each: float) -> int:
    """Turns that a long conversation gets; few, where a small run was asked for."""
    if turns != TURNS:
        return turns
    return LONG_TURNS[engine] if each < HEAVY or engine == "redis" else HEAVY_TURNS


def _grown(
    entry: Entry, places: Places, population: Population, threads: Sequence[str], turns: int
) -> tuple[float, float]:
    """Bytes stored and written by each turn."""
    place = places.new(entry)
    peer = entry.load()(place)
    ready = _ready(peer)
    try:
        ready.once("fill", population)
        ready.once("append", "warm", population.user(0), turn(0))
        kept, wrote = places.stored(place), places.written(place)
        for number in range(turns):
            for thread in threads:
                ready.once("append", thread, population.user(0), turn(number))
        wrote = places.written(place) - wrote
        kept = places.stored(place) - kept
    finally:
        ready.close()
    count = turns * len(threads)
    return kept / count, wrote / count


def remembered(engine: str, entries: Sequence[Entry], places: Places) -> Iterator[dict[str, Any]]:
    """Memory of the process for each conversation that it has open."""
    for number, entry in enumerate(STATE[engine]):
        if entry not in entries:
            continue
        words = ["-m", "bench.peers.keeping", engine, str(number), places.new(entry)]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        each = json.loads(done.stdout.splitlines()[-1])
        yield {
            "engine": engine,
            "contestant": entry.load().name,
            "role": entry.role,
            "colour": entry.load().colour,
            "kib": [round(value, 2) for value in each],
        }


def _ready(peer: Any) -> Ready:
    return Threads(peer, 1) if peer.colour == "sync" else Tasks(peer, "asyncio")


def _grow(engine: str, number: int, place: str) -> list[float]:
    """KiB that this process grew by, for each conversation, batch by batch."""
    ready = _ready(STATE[engine][number].load()(place))
    ready.once("fill", NOTHING)
    sizes = []
    for batch in range(BATCHES + 1):
        for n in range(OPEN):
            thread = f"c-{batch}-{n}"
            ready.once("append", thread, NOTHING.user(0), turn(n))
            ready.once("last", thread, NOTHING.user(0), LAST)
        gc.collect()
        sizes.append(_resident())
    ready.close()
    # The first batch also loads what is loaded once.
    return [(after - before) / OPEN for before, after in pairwise(sizes)]


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    print(json.dumps(_grow(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
