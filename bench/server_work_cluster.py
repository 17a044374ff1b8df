"""What new conversations cost each primary of a cluster, to compare with one server alone.

    python -m bench.server_work_cluster          needs valgrind; some minutes

Instructions of Valkey, as `bench.server_work_redis` counts them. Each conversation is new; its
first turn is two messages of 500 bytes. What the nodes tell each other goes on while nothing is
asked of them: that is counted for as long after the work, and taken away.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.server_work_redis import BODY, MONTH, PATIENCE, CountedServer
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.ops import Append, Applied, Commit, Entity
from stateward.world import World

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.redis_cluster import RedisCluster

WARM = 60  # conversations that are there before anything is counted
COUNTED = 360
SETTINGS = ("--appendonly", "yes", "--appendfsync", "everysec")


class CountedCluster(RedisCluster):
    """Three primaries, each of which is counted by itself."""

    def __init__(self, folder: Path) -> None:
        # Under valgrind a node takes seconds to answer the others.
        super().__init__(folder, "valkey", *SETTINGS, replicas=0)
        slow = ("--cluster-node-timeout", "60000")
        self.nodes = [
            CountedServer(node.folder, "valkey", *node.settings, *slow, port=node.port)
            for node in self.nodes
        ]


class NewConversations:
    """Conversations that begin, so many at once."""

    def __init__(self, url: str, batch: int, owners: bool) -> None:
        self._loop, self._world, self._batch = asyncio.new_event_loop(), World(), batch
        self._owners = owners
        self._engine = RedisEngine(
            parse_server(parse(f"{url}?timeout={PATIENCE:.0f}"), self._world)
        )
        self._loop.run_until_complete(self._engine.open())
        self._count = 0

    def begin(self, count: int) -> None:
        for _ in range(0, count, self._batch):
            asked = [self._commit() for _ in range(self._batch)]
            for outcome in self._loop.run_until_complete(self._engine.execute(asked)):
                assert isinstance(outcome, Applied), outcome

    def _commit(self) -> Commit:
        self._count += 1
        entity = Entity("default", "thread", f"s-{self._count:05}")
        owner = f"u-{self._count:05}" if self._owners else None
        turn = Append((BODY, BODY))
        return Commit(entity, self._world.new_op(), (turn,), owner=owner, retain=float(MONTH))

    def close(self) -> None:
        self._loop.run_until_complete(self._engine.close())
        self._loop.close()


def counted(servers: Sequence[CountedServer], work: Callable[[], None]) -> list[int]:
    """The instructions of each server."""
    for server in servers:
        server.control("--zero")
    work()
    return [server.dumped() for server in servers]


def work_of(url: str, servers: Sequence[CountedServer], batch: int, owners: bool) -> list[float]:
    """What one new conversation costs each server, without what it does anyway."""
    conversations = NewConversations(url, batch, owners)
    try:
        conversations.begin(WARM)
        began = time.monotonic()
        conversations.begin(COUNTED)
        lasted = time.monotonic() - began
        all = counted(servers, lambda: conversations.begin(COUNTED))
        idle = counted(servers, lambda: time.sleep(lasted))
        return [(a - i) / COUNTED for a, i in zip(all, idle, strict=True)]
    finally:
        conversations.close()


def main() -> None:
    for batch, owners in ((60, True), (60, False), (1, True)):
        with tempfile.TemporaryDirectory() as folder:
            server = CountedServer(Path(folder), "valkey", *SETTINGS)
            server.start()
            try:
                (alone,) = work_of(server.url, [server], batch, owners)
            finally:
                server.kill()
        with tempfile.TemporaryDirectory() as folder:
            cluster = CountedCluster(Path(folder))
            try:
                cluster.start()
                each = work_of(cluster.url, cluster.nodes, batch, owners)
            finally:
                cluster.stop()
        print(f"{batch} at once, {'each with its owner' if owners else 'without owners'}")
        print(f"  one server alone {alone:>12,.0f}")
        for number, work in enumerate(each):
            print(f"  primary {number}        {work:>12,.0f}   {work / alone:.2f} x", flush=True)


if __name__ == "__main__":
    main()
