"""Many conversations open in one process: memory for each, turns a second, the slowest.

    python -m bench.scale.crowd URL CONVERSATIONS RATE SECONDS

measures one number of conversations in a process of its own, because memory that was used once is
not given back.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter, process_time

import stateward
from bench.conversations import turn
from bench.rounds import quantile
from bench.scale.places import Place, resident
from bench.scale.turns import PATIENT, fill

LAST = 20
SETTLED = 50  # conversations that talk before anything is measured


@dataclass(frozen=True)
class Crowd:
    conversations: int
    idle_bytes: float  # for each conversation: its handle, and a task that waits
    window_bytes: float  # and the last 20 messages, held by the agent
    cached_bytes: float  # what the store's own cache takes for each, when it is on
    at_once: float  # turns a second when all talk at the same time
    at_once_p50_ms: float
    at_once_p99_ms: float
    cpu_us: float  # processor time of this process for a turn, when all talk at the same time
    paced: float  # turns a second when they talk one after the other, at a given rate
    paced_p50_ms: float  # from when a turn was meant to begin
    paced_p99_ms: float


def measure(place: Place, conversations: int, *, rate: float, seconds: float) -> Crowd:
    url = place.url(f"crowd_{conversations}")
    asyncio.run(fill(url, conversations, LAST))
    words = [str(conversations), str(rate), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale.crowd", url, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Crowd(**json.loads(done.stdout))


async def _crowd(url: str, conversations: int, rate: float, seconds: float) -> Crowd:
    async with stateward.open(url, policy=PATIENT, spill=False) as store:
        handles = [store.thread(f"c-{n}") for n in range(SETTLED)]
        await asyncio.gather(*(_turn(each, 0) for each in handles))
        before = _settled()
        threads = [store.thread(f"c-{n}") for n in range(conversations)]
        begin = asyncio.Event()
        waiting = [asyncio.create_task(_when(begin, each)) for each in threads]
        await asyncio.sleep(0)  # all of them wait now
        idle = _settled()
        start, cpu = perf_counter(), process_time()
        begin.set()
        took = await asyncio.gather(*waiting)
        at_once = conversations / (perf_counter() - start)
        cpu = (process_time() - cpu) / conversations
        paced, late = await _paced(threads, rate, seconds)
        before_windows = _settled()
        windows = await asyncio.gather(*(each.load(last=LAST) for each in threads))
        held = _settled()
        del windows
    cached = await _cached(url, conversations)
    return Crowd(
        conversations,
        (idle - before) / conversations,
        (held - before_windows) / conversations,
        cached,
        at_once,
        quantile(took, 0.5) * 1000,
        quantile(took, 0.99) * 1000,
        cpu * 1e6,
        paced,
        quantile(late, 0.5) * 1000,
        quantile(late, 0.99) * 1000,
    )


async def _cached(url: str, conversations: int) -> float:
    """What the cache itself says it holds, for each conversation."""
    cache = stateward.Cache(size=1 << 30)
    async with stateward.open(url, cache=cache, policy=PATIENT, spill=False) as store:
        loads = (store.thread(f"c-{n}").load(last=LAST) for n in range(conversations))
        await asyncio.gather(*loads)
        return store.counters.cache_bytes / conversations


async def _when(begin: asyncio.Event, thread: stateward.Thread) -> float:
    await begin.wait()
    return await _turn(thread, 1)


async def _turn(thread: stateward.Thread, number: int, due: float | None = None) -> float:
    """Seconds of one turn: the prompt's messages are read, question and answer are stored."""
    start = perf_counter() if due is None else due
    await thread.load(last=LAST)
    await thread.append(*turn(number))
    return perf_counter() - start


async def _paced(
    threads: list[stateward.Thread], rate: float, seconds: float
) -> tuple[float, list[float]]:
    """One conversation after the other takes its turn, however long the others need."""
    begun = perf_counter()
    tasks = []
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        if (ahead := due - perf_counter()) > 0:
            await asyncio.sleep(ahead)
        tasks.append(asyncio.create_task(_turn(threads[number * 7 % len(threads)], number, due)))
    took = await asyncio.gather(*tasks)
    return len(took) / (perf_counter() - begun), list(took)


def _settled() -> int:
    gc.collect()
    return resident()


if __name__ == "__main__":
    url, many, rate, seconds = sys.argv[1:]
    found = asyncio.run(_crowd(url, int(many), float(rate), float(seconds)))
    print(json.dumps(found.__dict__))
