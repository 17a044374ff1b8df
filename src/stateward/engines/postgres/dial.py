"""Connections for blocking callers, made on a thread of their own.

The thread makes one connection at a time, and the first caller waiting gets it. So connecting may
take longer than a call may, and no caller is held up by a name that cannot be resolved or a server
that accepts connections and stays silent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeVar

from stateward.engines.postgres.failures import Unanswered
from stateward.world import Errand

T = TypeVar("T")


class Dial(Generic[T]):
    """Waits for the next connection. `connect` makes one idle, and `pop` takes an idle one."""

    def __init__(
        self, connect: Callable[[], object], pop: Callable[[], T | None], clock: Callable[[], float]
    ) -> None:
        self._connect = connect
        self._pop = pop
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Errand | None = None  # the last connection that was begun

    def next(self, deadline: float | None) -> T:
        """Return the next connection; the caller has a permit, so there are never too many."""
        while True:
            with self._lock:
                last = self._last
                over = last is None or last.ended  # seen before looking for what it has made
                link = self._pop()
                if link is not None:
                    return link
                if last is None or over:
                    last = Errand(partial(copy_context().run, self._connect), "stateward-connect")
                    self._last = last
            if not last.wait(None if deadline is None else max(0.0, deadline - self._clock())):
                raise Unanswered("no connection in time")
            if last.error is not None:
                raise last.error
