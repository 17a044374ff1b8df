"""The wait for replicas, which is short while a server is without them. No I/O here."""

from __future__ import annotations

from stateward.engines.redis.client.server import WAITING, Server
from stateward.engines.redis.client.wire import Command

SHORT = 50  # milliseconds that replicas are waited for after they have failed to confirm
AGAIN = 5.0  # seconds until they are waited for in full length again
OF_THE_DEADLINE = 0.8  # the rest is for the way back


class ReplicaWait:
    """The time that the writes of one server wait for its replicas.

    After a failover the new primary may have no replica for hours. Each write would wait in vain
    for as long as it may, and hold up those behind it.
    """

    def __init__(self, server: Server) -> None:
        self._wanted = server.wait_replicas
        self._longest = int(server.timeout * WAITING * 1000)
        self._monotonic = server.world.monotonic
        self._short = False
        self._next_long = 0.0

    def command(self, deadline: float | None = None) -> Command:
        """Return the command that waits, no longer than until the caller's deadline."""
        now, limit = self._monotonic(), self._longest
        if self._short:
            if now < self._next_long:
                limit = min(limit, SHORT)
            else:
                self._next_long = now + AGAIN
        if deadline is not None:
            limit = min(limit, int((deadline - now) * OF_THE_DEADLINE * 1000))
        return ("WAIT", self._wanted, max(1, limit))  # 0 would wait for ever

    def is_short(self, confirmed: int) -> bool:
        """Take the number of replicas that have confirmed; return whether these are too few."""
        was_short, self._short = self._short, confirmed < self._wanted
        if self._short and not was_short:
            self._next_long = self._monotonic() + AGAIN
        return self._short
