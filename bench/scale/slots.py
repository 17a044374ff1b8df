"""A cluster of three primaries: which nodes a call asks, and how often.

Counted by the servers themselves, so nothing of it depends on the machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stateward
from bench.conversations import turn
from bench.homes import TESTS

CALLS = 60  # of each kind, each on another entity
UNCOUNTED = ("cmdstat_info", "cmdstat_client", "cmdstat_cluster", "cmdstat_ping")


@dataclass(frozen=True)
class Asked:
    """Means of `CALLS` calls."""

    call: str
    nodes: float  # that were asked
    round_trips: float  # reads of a server from its connections
    commands: float  # that servers ran, those inside of scripts included


def measure() -> list[Asked]:
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from servers.redis_cluster import RedisCluster

    with tempfile.TemporaryDirectory(prefix="stateward-scale-") as name:
        cluster = RedisCluster(Path(name), replicas=0).start()
        try:
            return asyncio.run(_measure(cluster))
        finally:
            cluster.stop()


async def _measure(cluster: Any) -> list[Asked]:
    import redis

    nodes = [redis.Redis(port=node.port) for node in cluster.nodes]
    async with stateward.open(cluster.url, spill=False) as store:
        calls: dict[str, Callable[[int], Awaitable[Any]]] = {
            "append to a new thread": lambda n: store.thread(f"t-{n}", f"u-{n}").append(*turn(n)),
            "append": lambda n: store.thread(f"t-{n}", f"u-{n}").append(*turn(n)),
            "last 20": lambda n: store.thread(f"t-{n}", f"u-{n}").load(last=20),
            "first put of a user": lambda n: store.user(f"u-{n}").put({"visits": n}),
            "user get": lambda n: store.user(f"u-{n}").get(),
            "full context": lambda n: store.context(user=f"u-{n}", thread=f"t-{n}", last=20),
            "run a task once": lambda n: store.once(f"task-{n}", int, user=f"u-{n}"),
        }
        for warming in range(1_000, 1_040):  # connections and scripts are everywhere now
            for call in calls.values():
                await call(warming)
        found = [await _count(name, call, nodes) for name, call in calls.items()]
    for node in nodes:
        node.close()
    return found


async def _count(name: str, call: Callable[[int], Awaitable[Any]], nodes: list[Any]) -> Asked:
    asked = trips = commands = 0
    for number in range(CALLS):
        before = [_served(node) for node in nodes]
        await call(number)
        after = [_served(node) for node in nodes]
        for (ran, reads), (ran_then, reads_then) in zip(after, before, strict=True):
            own = 1  # this question is read, too
            asked += reads - reads_then > own
            trips += reads - reads_then - own
            commands += ran - ran_then
    return Asked(name, asked / CALLS, trips / CALLS, commands / CALLS)


def _served(node: Any) -> tuple[int, int]:
    said = node.info("everything")
    ran = sum(
        value["calls"]
        for name, value in said.items()
        if name.startswith("cmdstat_") and not name.startswith(UNCOUNTED)
    )
    return ran, said["total_reads_processed"]
