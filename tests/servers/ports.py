"""Ports for servers that tests start."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

# Below those that a system gives to connections (32,768 and up on Linux): no client takes one
# while its server is starting, or is down for a restart. Nor does one take a cluster's bus port.
LOWEST, HIGHEST = 12_000, 22_000
BUS = 10_000  # a node of a cluster listens so far above its port, too
BLOCK = 50  # ports that a process of the tests takes at a time, for itself


def free_port() -> int:
    """Return a port that is free, and whose bus port is, and that no other test process gets."""
    for port in _ports:
        if _is_free(port) and _is_free(port + BUS):
            return port
    raise RuntimeError(f"no free port from {LOWEST:,} to {HIGHEST:,}")


def _claimed() -> Iterator[int]:
    """Yield the ports of blocks that no other process has, then again those of the same blocks."""
    blocks = [LOWEST + n * BLOCK for n in range((HIGHEST - LOWEST) // BLOCK)]
    start = os.getpid() % len(blocks)
    ours = []
    for first in (*blocks[start:], *blocks[:start]):
        if _claim(first):
            ours.append(first)
            yield from range(first, first + BLOCK)
    for first in ours:
        yield from range(first, first + BLOCK)


def _claim(first: int) -> bool:
    """Hold a block until this process ends; its UDP port, which no server uses, says so."""
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind(("127.0.0.1", first))
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


_ports = _claimed()
