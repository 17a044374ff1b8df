"""Connections between simulated processes: bytes come in order, late, in pieces, or not at all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.faults import RATES
from simulation.loop import context_of

if TYPE_CHECKING:
    from simulation.simulation import Process, Simulation

SPLIT = "sent in two pieces"
LATE = "bytes late"
CUT = "connection cut amid bytes"  # some of them arrive
LOST = "connection cut before bytes"  # none of them do
NETWORK = (SPLIT, LATE, CUT, LOST)
LATENCIES = (0.001, 0.01, 0.03)  # seconds that bytes take at most


class End(asyncio.Transport):
    """One end of a connection. What comes is handed to its protocol by its own process."""

    def __init__(self, network: Network, process: Process) -> None:
        super().__init__()
        self.process = process
        self.protocol: Any = None
        self.other: End
        self._network = network
        self._closed = False
        self._coming: deque[Callable[[], None]] = deque()

    def write(self, data: Any) -> None:
        if data and not self._closed and not self.other._closed:
            self._network.carry(self.other, bytes(data))

    def close(self) -> None:
        if not self._closed:
            self.lose(None, 0.0)
            self.other.lose(None, self._network.latency())

    abort = close

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0  # the network takes all that is written at once

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None:
        """What has come is taken all the same: nothing here is large."""

    def resume_reading(self) -> None:
        """See above."""

    def comes(self, what: Callable[[], None], seconds: float) -> None:
        """In its order, by the process, if that runs."""
        self._coming.append(what)
        loop = self._network.simulation.loop
        loop.call_later(seconds, self._take, context=context_of(self.process.main))

    def _take(self) -> None:
        self._coming.popleft()()

    def receive(self, data: bytes) -> None:
        if not self._closed:
            self.protocol.data_received(data)

    def lose(self, error: Exception | None, seconds: float) -> None:
        """It ends: what came before is taken first."""
        if seconds:
            self.comes(lambda: self._end(error), seconds)
        elif not self._closed:
            self._closed = True
            self.comes(lambda: self.protocol.connection_lost(error), 0.0)

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self.protocol.connection_lost(error)


class Network:
    """All connections of one run, and what becomes of what is sent on them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._chance: Random = simulation.chance("network")
        self._most = self._chance.choice(LATENCIES)
        calm = simulation.faults.calm
        self._rates = {
            kind: 0.0 if calm or self._chance.random() < 0.5 else self._chance.choice(RATES)
            for kind in NETWORK
        }
        self._ends: list[End] = []

    def latency(self) -> float:
        return 0.0001 + self._most * self._chance.random()

    def connect(
        self, client: Process, server: Process, factory: Callable[[], Any], serve: Callable[[], Any]
    ) -> End:
        """A new connection. The server sees it when it gets its turn."""
        near, far = End(self, client), End(self, server)
        near.other, far.other = far, near
        near.protocol = factory()

        def accept() -> None:
            far.protocol = serve()
            far.protocol.connection_made(far)

        far.comes(accept, 0.0)
        near.protocol.connection_made(near)
        self._ends = [end for end in self._ends if not end.is_closing()] + [near, far]
        return near

    def carry(self, to: End, data: bytes) -> None:
        """Bytes on their way."""
        kind, seconds = self._fate(), self.latency()
        middle = self._chance.randrange(len(data)) if data else 0
        if kind is not None:
            self.simulation.faults.note(kind)
            self.simulation.trace(to.process, kind, len(data))
        if kind in (CUT, LOST):
            if kind == CUT and middle:
                to.comes(lambda: to.receive(data[:middle]), seconds)
            for end in (to, to.other):
                end.lose(ConnectionResetError("the simulated connection was cut"), seconds)
            return
        if kind == LATE:
            seconds = self.simulation.faults.late()
        if kind == SPLIT and middle:
            to.comes(lambda: to.receive(data[:middle]), seconds)
            to.comes(lambda: to.receive(data[middle:]), seconds + self.latency())
            return
        to.comes(lambda: to.receive(data), seconds)

    def _fate(self) -> str | None:
        if self.simulation.faults.on:
            for kind, rate in self._rates.items():
                if self._chance.random() < rate:
                    return kind
        return None

    def died(self, process: Process) -> None:
        """Its operating system ends its connections; also with nobody's help."""
        for end in self._ends:
            if end.process is process and not end.is_closing():
                reset = ConnectionResetError("the other process has died")
                end.other.lose(reset, self.latency())
