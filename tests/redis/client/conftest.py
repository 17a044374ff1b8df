"""The client in both colours: each test is run with either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stateward.engines.redis.client import cluster, sentinel, topology
from stateward.engines.redis.client.pipeline import Answers, PipelineStep
from stateward.engines.redis.client.server import Address, Server
from stateward.sync.engines.redis.client import cluster as cluster_sync
from stateward.sync.engines.redis.client import sentinel as sentinel_sync
from stateward.sync.engines.redis.client import topology as topology_sync

SCRIPTS = ("return 1", "return 2")


class Client:
    """The servers of one colour, asked from an event loop."""

    def __init__(self, blocking: bool) -> None:
        self.blocking = blocking

    async def call(self, function: Any, *args: Any, **options: Any) -> Any:
        """Wait for a method of either colour."""
        if self.blocking:
            return await asyncio.to_thread(function, *args, **options)
        return await function(*args, **options)

    @asynccontextmanager
    async def opened(self, *addresses: Address, **settings: Any) -> AsyncIterator[Any]:
        """One server, or a cluster, or what sentinels tell of: as the settings say."""
        server = Server(addresses, **settings)
        if server.cluster:
            kind: Any = (cluster_sync if self.blocking else cluster).ClusterServers
        elif server.service:
            kind = (sentinel_sync if self.blocking else sentinel).SentinelServer
        else:
            kind = (topology_sync if self.blocking else topology).OneServer
        servers = kind(server, SCRIPTS)
        try:
            await self.call(servers.open)
            yield servers
        finally:
            await self.call(servers.close)

    async def ask(self, servers: Any, *words: str, writes: bool = False, **options: Any) -> Any:
        """The reply to one command for the server that holds the key, which is its second word."""
        step = PipelineStep(words[1], (words,), writes)
        return (await self.trip(servers, (step,), **options)).replies[0][0]

    async def trip(self, servers: Any, steps: Any, **options: Any) -> Answers:
        """The answers to the steps."""
        answers: Answers = await self.call(servers.trip, steps, **options)
        return answers


@pytest.fixture(params=["event loop", "blocking"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param == "blocking")
