"""Many processes on one store: turns a second together, the slowest, and whether anything is lost.

    python -m bench.scale.crew URL NUMBER CONVERSATIONS TURNS

is one of them. It says `ready`, waits for a line, and answers with the seconds of each append.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import stateward
from bench.conversations import message
from bench.rounds import quantile
from bench.scale.places import Place
from bench.scale.turns import PATIENT

COMMON = "common"  # a conversation that all processes write to


@dataclass(frozen=True)
class Crew:
    processes: int
    conversations: int  # of each process, besides the common one
    turns: int  # stored by all together
    per_second: float
    p50_ms: float
    p99_ms: float
    lost: int  # messages
    repeated: int  # turns stored more than once
    split: int  # turns with another's message inside


def measure(place: Place, processes: int, *, conversations: int, turns: int) -> Crew:
    url = place.url(f"crew_{processes}")
    asyncio.run(_migrate(url))
    crew = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.scale.crew", url, str(n), str(conversations), str(turns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(processes)
    ]
    try:
        for process in crew:
            if _line(process) != "ready":
                raise SystemExit(f"process {process.args!r} did not start")
        start = perf_counter()
        for process in crew:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        took = [seconds for process in crew for seconds in json.loads(_line(process))]
        elapsed = perf_counter() - start
    finally:
        for process in crew:
            process.communicate()
    lost, repeated, split = asyncio.run(_read_back(url, processes, conversations, turns))
    return Crew(
        processes,
        conversations,
        len(took),
        len(took) / elapsed,
        quantile(took, 0.5) * 1000,
        quantile(took, 0.99) * 1000,
        lost,
        repeated,
        split,
    )


async def _migrate(url: str) -> None:
    async with stateward.open(url, policy=PATIENT, spill=False) as store:
        await store.health()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def _read_back(url: str, processes: int, own: int, turns: int) -> tuple[int, int, int]:
    expected = {
        name: [f"{name}/{p}/{n}" for p in range(processes) for n in range(turns)]
        for name in (COMMON,)
    } | {
        f"own-{p}-{c}": [f"own-{p}-{c}/{p}/{n}" for n in range(turns)]
        for p in range(processes)
        for c in range(own)
    }
    lost = repeated = split = 0
    async with stateward.open(url, policy=PATIENT, spill=False) as store:
        for name, told in expected.items():
            kept = (await store.thread(name).load(last=10 * len(told))).messages
            ids = [each["turn"] for each in kept]
            lost += sum(2 - min(2, ids.count(one)) for one in told)
            repeated += sum(ids.count(one) > 2 for one in set(ids))
            pairs = zip(ids[::2], ids[1::2], strict=False)
            split += sum(question != answer for question, answer in pairs)
    return lost, repeated, split


async def _one(url: str, number: int, conversations: int, turns: int) -> None:
    async with stateward.open(url, policy=PATIENT, spill=False) as store:
        await store.health()
        print("ready", flush=True)
        sys.stdin.readline()
        names = [COMMON, *(f"own-{number}-{n}" for n in range(conversations))]
        told = await asyncio.gather(*(_converse(store, name, number, turns) for name in names))
    print(json.dumps([seconds for each in told for seconds in each]), flush=True)


async def _converse(store: stateward.Store, name: str, number: int, turns: int) -> list[float]:
    took = []
    for each in range(turns):
        start = perf_counter()
        await store.thread(name).append(*_told(f"{name}/{number}/{each}", each))
        took.append(perf_counter() - start)
    return took


def _told(mark: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    marks = {"turn": mark}
    return message("user", number) | marks, message("assistant", number) | marks


if __name__ == "__main__":
    url, number, conversations, turns = sys.argv[1:]
    asyncio.run(_one(url, int(number), int(conversations), int(turns)))
