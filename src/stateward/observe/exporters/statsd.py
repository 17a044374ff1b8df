"""Metrics as statsd or DogStatsD packets over UDP. Needs nothing but Python.

    with Statsd(store, host="127.0.0.1", port=8125):
        ...

A separate thread sends what has been counted since the last time. An operation never waits for
it: it does not even know of it. If no one listens, the packets are gone, as always with UDP.

Reads go by the names that dashboards of agents use: `agent.state.lookup.success`, `.error`,
`.error.<type>` and `.latency`; everything else by the name in the reference, with dots, e.g.
`stateward.suppressed_writes`.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Self

from stateward.errors import InvalidInput
from stateward.observe.catalogue import LOOKUP_ERROR, LOOKUP_LATENCY, LOOKUP_SUCCESS
from stateward.observe.exporters.source import MetricsSource, look
from stateward.observe.metrics import Distribution, Family, Metrics, Sample

PACKET = 1432  # bytes: what fits into one frame on any network

logger = logging.getLogger("stateward.observe.exporters")

_NAMES = {
    LOOKUP_SUCCESS.name: "agent.state.lookup.success",
    LOOKUP_ERROR.name: "agent.state.lookup.error",
    LOOKUP_LATENCY.name: "agent.state.lookup.latency",
}
Labels = Mapping[str, str]
Key = tuple[str, tuple[tuple[str, str], ...]]


class Statsd:
    """Sends every `every` seconds, and once more when closed.

    `tags=False` leaves out the tags, which plain statsd does not know.
    """

    def __init__(
        self,
        store: MetricsSource,
        *,
        host: str = "127.0.0.1",
        port: int = 8125,
        every: float = 10.0,
        tags: bool = True,
    ) -> None:
        if type(every) not in (int, float) or not 0.01 <= every <= 3600:
            raise InvalidInput(f"every is in seconds, from 0.01 to 3600, not {every!r}")
        self._store = store
        self._host, self._port = host, port
        self._every = every
        self._lines = Lines(tags)
        self._socket: socket.socket | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stateward-statsd", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, and stop. Closing twice is fine."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- on its own thread ----------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._flush()
        self._flush()
        if self._socket is not None:
            self._socket.close()

    def _flush(self) -> None:
        lines = self._lines.since_last(look(self._store))
        try:
            if self._socket is None:
                self._socket = self._connect()
            for packet in packets(lines):
                self._socket.send(packet)
        except OSError as error:  # no one listens, or the name does not resolve: tried again
            logger.info("statsd_not_sent", extra={"error": type(error).__name__})
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _connect(self) -> socket.socket:
        addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = addresses[0]
        connected = socket.socket(family, kind, protocol)
        connected.settimeout(1.0)
        connected.connect(address)
        return connected


class Lines:
    """The lines about a snapshot, after the snapshots before it."""

    def __init__(self, tags: bool) -> None:
        self._tags = tags
        self._counts: dict[Key, float] = {}
        self._buckets: dict[Key, list[int]] = {}

    def since_last(self, metrics: Metrics) -> list[str]:
        return [line for family in metrics.families for line in self._family(family)]

    def _family(self, family: Family) -> Iterator[str]:
        name = _NAMES.get(family.name) or dotted(family.name)
        for sample in family.samples:
            if family.type == "gauge":
                yield f"{name}:{sample.value:g}|g{self._tagged(sample.labels)}"
                continue
            more = self._grown(family.name, sample)
            if more is None:
                continue
            yield f"{name}:{more:g}|c{self._tagged(sample.labels)}"
            if family.name == LOOKUP_ERROR.name:
                yield f"{name}.{sample.labels['error']}:{more:g}|c{self._tagged(sample.labels)}"
        for part in family.distributions:
            yield from self._values(name, family.name, part)

    def _grown(self, name: str, sample: Sample) -> float | None:
        """Return how much is new; None: nothing. A count is sent the first time even if it is 0.

        Otherwise a dashboard could not tell a good year from a missing metric.
        """
        key = (name, tuple(sorted(sample.labels.items())))
        before = self._counts.get(key)
        self._counts[key] = sample.value
        return None if sample.value == before else sample.value - (before or 0.0)

    def _values(self, name: str, family: str, part: Distribution) -> Iterator[str]:
        """Yield one value a bucket, with the rate at which it stands for all values in it.

        A packet for every operation would cost 25 µs each; this says the same in a few lines.
        """
        key = (family, tuple(sorted(part.labels.items())))
        before = self._buckets.get(key) or [0] * len(part.counts)
        self._buckets[key] = part.counts
        seconds = family.endswith("_seconds")
        for at, (count, old) in enumerate(zip(part.counts, before, strict=True)):
            if count > old:
                value = _middle(part.bounds, at) * (1000 if seconds else 1)
                kind = "h" if self._tags else "ms"
                rate = f"|@{1 / (count - old):.9g}" if count - old > 1 else ""
                yield f"{name}:{value:.6g}|{kind}{rate}{self._tagged(part.labels)}"

    def _tagged(self, labels: Labels) -> str:
        if not self._tags or not labels:
            return ""
        return "|#" + ",".join(f"{name}:{value}" for name, value in labels.items())


def dotted(name: str) -> str:
    """`stateward_suppressed_writes_total` in the spelling of statsd."""
    short = name.removesuffix("_total").removesuffix("_seconds")
    return short.replace("stateward_", "stateward.", 1)


def packets(lines: list[str]) -> Iterator[bytes]:
    """Yield packets of as many lines as fit."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        encoded = line.encode()
        if held and size + len(encoded) + 1 > PACKET:
            yield b"\n".join(held)
            held, size = [], 0
        held.append(encoded)
        size += len(encoded) + 1
    if held:
        yield b"\n".join(held)


def _middle(bounds: tuple[float, ...], at: int) -> float:
    """Return the value that stands for those in this bucket."""
    if at == len(bounds):
        return bounds[-1]
    low = bounds[at - 1] if at else 0.0
    # A size is a whole number and mostly the bound itself; a duration lies anywhere between.
    return bounds[at] if bounds[0] == 1.0 else (low + bounds[at]) / 2
