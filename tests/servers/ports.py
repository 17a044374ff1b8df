"""Ports for servers that tests start."""

from __future__ import annotations

import itertools
import os
import socket

# Below those that a system gives to connections (32,768 and up on Linux): no client takes one
# while its server is starting, or is down for a restart. A cluster's bus, 10,000 higher, too.
LOWEST, HIGHEST = 12_000, 22_000
_next = itertools.count(os.getpid() * 131)


def free_port() -> int:
    """One that nothing listens on; the processes of a test run look in different places."""
    for number in itertools.islice(_next, HIGHEST - LOWEST):
        port = LOWEST + number % (HIGHEST - LOWEST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port from {LOWEST:,} to {HIGHEST:,}")
