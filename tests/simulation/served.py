"""Replicas that reach the store by way of a service, which fails like everything else.

Their engine, the server that takes their requests (uvicorn's), the application and the store behind
it are the real ones. Between them is a simulated network, and between the service and the store are
the faults of every other simulation. The service is a process too: it dies, freezes and is told to
end, and another one follows it. Leases are renewed past the service: a thread that blocks
cannot be simulated here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from simulation.gate import Sibling, one_commit_an_entity
from simulation.loop import context_of
from simulation.network import Network
from simulation.simulation import Process, Simulation
from stateward.engine import Engine, SyncEngine
from stateward.engines.http.engine import HttpEngine
from stateward.engines.http.settings import Endpoint
from stateward.engines.memory.model import Model
from stateward.ops import Op, Outcome
from stateward.server import app

HOST = "127.0.0.1"
NEAR = 0.05  # seconds from the service to the store at most: a call waits for both ways
RESTART = 0.5  # seconds until the next service answers, at least

logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # as `stateward serve` has it


class ServedEngine(HttpEngine):
    """The engine of one replica."""

    def __init__(self, simulation: Simulation, process: Process) -> None:
        number = int(process.name.removeprefix("p"))
        service = Endpoint("the service", HOST, number, "", None, "", None, 4.0, process.world)
        super().__init__(service)
        self._simulation = simulation
        self._process = process

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self._simulation.over:
            raise asyncio.CancelledError
        one_commit_an_entity(self._simulation, ops)
        return await super().execute(ops, deadline=deadline)

    def sibling(self) -> SyncEngine:
        return Sibling(self._simulation, self._process, self.capabilities)


class ServedSimulation(Simulation):
    """One run in which a service stands before the store."""

    option = " --served"
    engine_kind: type[ServedEngine] = ServedEngine

    def __init__(
        self,
        seed: int,
        *,
        model: Callable[[Random], Model] | None = None,
        trace: Callable[[str], object] | None = None,
        audited: bool = True,
    ) -> None:
        super().__init__(seed, model=model, trace=trace, audited=audited)
        self.faults.latency = min(self.faults.latency, NEAR)
        self.network = Network(self)
        self._servers: dict[str, Callable[[], Any]] = {}
        self._serving: Process | None = None
        self.restarts = -1
        setattr(self.loop, "create_connection", self._connect)  # noqa: B010 - of this loop alone
        self._serve()

    def engine_of(self, process: Process) -> Engine:
        return process.gate if process.name.startswith("s") else self.engine_kind(self, process)

    def options_of(self, process: Process) -> dict[str, Any]:
        """A service keeps nothing for later: whoever asks is told, and decides."""
        return {"spill": False} if process.name.startswith("s") else self.store_options

    def heal(self) -> None:
        super().heal()
        self._follow_server()

    def _serve(self) -> None:
        """Start a service, the first or the next."""
        self.restarts += 1
        server = Process(self, f"s{self.restarts}")
        config = uvicorn.Config(
            app(server.store, insecure_local=True),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=server.chance.choice((1, 75)),
        )
        config.load()
        state = ServerState()
        self._servers[server.name] = lambda: H11Protocol(config, state, {}, self.loop)
        self._serving = server
        self.processes.append(server)

    def _follow_server(self) -> None:
        """The last one has ended, and its connections with it."""
        if self._serving is None:
            for process in self.processes:
                if process.name in self._servers:
                    self.network.died(process)
            self._serve()

    def died(self, process: Process) -> None:
        if process.name not in self._servers:
            super().died(process)
        elif process is self._serving:
            self._serving = None
            after = RESTART + (self.faults.standstill() if self.faults.on else 0.0)
            self.loop.call_later(after, self._follow_server, context=context_of(None))
        if not process.alive:
            self.network.died(process)

    async def _connect(
        self,
        factory: Callable[[], Any],
        host: str,
        port: int,
        ssl: object = None,
        server_hostname: str | None = None,
    ) -> tuple[asyncio.Transport, Any]:
        await asyncio.sleep(self.network.latency())
        client = next(each for each in self.processes if each.name == f"p{port}")
        server = self._serving
        if server is None or self.refuses(client):
            raise ConnectionRefusedError("nobody listens there")
        end = self.network.connect(client, server, factory, self._servers[server.name])
        return cast(asyncio.Transport, end), end.protocol
