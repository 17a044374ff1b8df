"""Replicas over a real Redis, Valkey or cluster, which are told the time by the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from servers.redis import RedisServer

from stateward.engine import Engine, SyncEngine
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.sync.engines.redis.engine import RedisEngine as BlockingRedis
from stateward.testing.clock import SteppableWorld
from stateward.world import World

START = 1_700_000_000.0
FLAGS = re.compile(rb" flags=(\S+) ")
REPLICATION = frozenset(b"SM")  # the links between a primary and its replicas


class Stores:
    """One server, or the nodes of one cluster, for one case after the other."""

    def __init__(self, url: str, nodes: Sequence[RedisServer], empty: Callable[[], None]) -> None:
        self._url = parse(url)
        self._nodes = nodes
        self._empty = empty

    def engine(self, world: World) -> Engine:
        return RedisEngine(parse_server(self._url, world), world.now)

    def blocking_engine(self, world: World) -> SyncEngine:
        return BlockingRedis(parse_server(self._url, world), world.now)

    def world(self) -> SteppableWorld:
        """A fresh clock, over an empty server: a sweep would meet what an earlier case left."""
        self._empty()
        return SteppableWorld(START)

    def connections(self) -> int:
        """How many the engines have open."""
        found = 0
        for node in self._nodes:
            flags = FLAGS.findall(node.ask("CLIENT", "LIST"))
            callers = [each for each in flags if not REPLICATION & set(each)]
            assert callers, "whoever asks is one of them"
            found += len(callers) - 1
        return found


def stores_of(server: RedisServer) -> Stores:
    """Over a single server."""

    def empty() -> None:
        assert server.ask("FLUSHALL") == b"+OK\r\n"

    return Stores(server.url, [server], empty)
