"""statsd is told everything, by the names that dashboards of agents use, and never waited for."""

from __future__ import annotations

import gc
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from observability.colours import ok
from stateward import InvalidInput, StoreUnavailable, sync
from stateward.observe.exporters.statsd import PACKET, Lines, Statsd, packets
from stateward.observe.metrics import Family, Histogram, Metrics

HELLO = {"role": "user", "content": "hello"}
LINE = re.compile(
    r"(?P<name>[\w.]+):(?P<value>[-\d.e+]+)\|(?P<type>c|g|h|ms)"
    r"(?:\|@(?P<rate>[\d.e-]+))?(?:\|#(?P<tags>[\w.:,]+))?"
)


class Listener:
    """A statsd server, as far as listening goes."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.3)
        self.port: int = self.socket.getsockname()[1]

    def lines(self) -> list[dict[str, Any]]:
        """All that has arrived, and nothing that is not statsd."""
        found = []
        while True:
            try:
                packet = self.socket.recv(65536)
            except TimeoutError:
                return found
            assert len(packet) <= PACKET
            for line in packet.decode().split("\n"):
                match = LINE.fullmatch(line)
                assert match is not None, line
                found.append(match.groupdict())


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener()
    yield listening
    listening.socket.close()


def counted(lines: list[dict[str, Any]]) -> Counter[str]:
    """Totals by name; a sampled value counts for those it stands for."""
    total: Counter[str] = Counter()
    for line in lines:
        if line["type"] == "c":
            total[line["name"]] += float(line["value"])
        elif line["type"] in ("h", "ms"):
            total[line["name"]] += round(1 / float(line["rate"] or 1))
    return total


async def test_lookups_go_by_the_names_of_agents_dashboards(store: Any, listener: Listener) -> None:
    with Statsd(store, port=listener.port, every=0.5):
        for _ in range(30):
            await ok(store.thread("s-1").load())
        with store.faults.unavailable(), pytest.raises(StoreUnavailable) as raised:
            await ok(store.thread("s-1").load())
        with store.faults.unavailable():
            await ok(store.thread("s-1").append(HELLO))
    lines = listener.lines()
    total = counted(lines)
    assert total["agent.state.lookup.success"] == 30
    assert total["agent.state.lookup.error"] == 1
    assert total[f"agent.state.lookup.error.{raised.type.__name__}"] == 1
    assert total["agent.state.lookup.latency"] == 31
    assert total["stateward.suppressed_writes"] == 1
    latencies = [line for line in lines if line["name"] == "agent.state.lookup.latency"]
    assert {line["tags"] for line in latencies} == {"engine:memory"}
    assert max(float(line["value"]) for line in latencies) > 20  # ms: the one that failed
    gauges = {line["name"] for line in lines if line["type"] == "g"}
    assert {"stateward.spill_depth", "stateward.spill_age", "stateward.breaker_open"} <= gauges


async def test_plain_statsd_gets_no_tags(store: Any, listener: Listener) -> None:
    with Statsd(store, port=listener.port, tags=False):
        await ok(store.thread("s-1").load())
    lines = listener.lines()  # what was counted is sent when it is closed
    assert counted(lines)["agent.state.lookup.success"] == 1
    assert "stateward.storage_bytes" in {line["name"] for line in lines}
    assert {line["tags"] for line in lines} == {None}
    assert "h" not in {line["type"] for line in lines}


def test_nothing_is_said_twice() -> None:
    lines = Lines(tags=True)
    histogram = Histogram((0.01, 0.1))
    for value in (0.005, 0.05, 0.05, 0.05):
        histogram.add(value)

    def snapshot() -> Metrics:
        read = histogram.read({"engine": "x"})
        return Metrics(
            0.0, [Family("agent_state_lookup_latency_seconds", "histogram", "", [], [read])]
        )

    assert lines.since_last(snapshot()) == [
        "agent.state.lookup.latency:5|h|#engine:x",
        "agent.state.lookup.latency:55|h|@0.333333333|#engine:x",
    ]
    assert lines.since_last(snapshot()) == []
    histogram.add(0.05)
    assert lines.since_last(snapshot()) == ["agent.state.lookup.latency:55|h|#engine:x"]


def test_packets_fit_into_a_frame_and_lose_no_line() -> None:
    lines = [f"stateward.some_name_{n}:1|c|#engine:sqlite" for n in range(500)]
    sent = list(packets(lines))
    assert max(map(len, sent)) <= PACKET
    assert b"\n".join(sent).decode().split("\n") == lines


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_dead_host_costs_an_operation_nothing(host: str) -> None:
    """The first refuses every packet, the second has no address: neither is met by a caller."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    longest = 0.0
    with sync.open("memory://") as store:
        store.thread("s-1").append(HELLO)
        with Statsd(store, host=host, port=port, every=0.01):
            gc.disable()  # it would look at all that other tests have left, on this thread's time
            try:
                end = time.monotonic() + 0.5
                while time.monotonic() < end:
                    begun = time.thread_time()
                    store.thread("s-1").load(last=1)
                    longest = max(longest, time.thread_time() - begun)
            finally:
                gc.enable()
    assert longest < 0.005  # of this thread's own time: nothing was sent on it


@pytest.mark.parametrize("every", [0, -1, "10", 1e9])
def test_a_wrong_interval_is_refused(every: Any) -> None:
    with sync.open("memory://") as store, pytest.raises(InvalidInput, match="every is in seconds"):
        Statsd(store, every=every)
