"""The blocking twin of `opener.py`: any thread of one process may use the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from stateward.engine import SyncEngine
from stateward.errors import StoreMisused
from stateward.layers import opener
from stateward.layers.coalescer_sync import Coalescer
from stateward.layers.queue import closed
from stateward.observe.recorder import Recorder
from stateward.ops import Op, Outcome
from stateward.world import World


class Opener:
    """Opens the engine lazily, for the process that uses it."""

    def __init__(
        self,
        engine: SyncEngine,
        world: World,
        opened: Callable[[], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.engine = engine
        self._opened = opened  # is told of the opening, before the first call goes on
        self._process: int | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._clock = world.monotonic
        self._coalescer = Coalescer(engine, recorder, self._clock)

    def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        if self._process != opener._process or self._closed:
            began = self._clock()
            self.ready()
            if deadline is not None:
                deadline += self._clock() - began  # opening is not the call's doing
        return self._coalescer.execute(ops, deadline)

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._process is not None and self._process == opener._process and not self._closed

    def ready(self) -> None:
        """Make sure the engine is open here."""
        if self._process is not None and self._process != opener._process:
            raise StoreMisused(
                "this store was used before the process forked and cannot work in the child; "
                "open it after the fork, or do not use it before (opening alone does no I/O)"
            )
        with self._lock:
            if self._closed:
                raise closed()
            if self._process is None:
                self.engine.open()
                if self._opened is not None:
                    self._opened()
                self._process = opener._process

    def check_closing(self) -> None:
        """Any thread may close it; in the child of a fork nothing happens."""

    def close(self) -> None:
        """Finish what is under way and let go of everything. Closing twice is fine."""
        if self._process is not None and self._process != opener._process:
            return  # it is the parent's: nothing here is ours to close
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._process is not None:
            self._coalescer.drain()
            self.engine.close()
