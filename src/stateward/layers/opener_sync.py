"""The blocking twin of `opener.py`: any thread of one process may use the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from stateward.engine import SyncEngine
from stateward.errors import StoreMisused
from stateward.layers import opener
from stateward.layers.queue import closed, own
from stateward.observe.recorder import Recorder
from stateward.ops import Op, Outcome
from stateward.world import Errand, World


class Carrier(Protocol):
    """The carrier of operations to the engine: a coalescer, or one for each part."""

    def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]: ...
    def drain(self) -> None: ...


class Opener:
    """Opens the engine lazily, for the process that uses it.

    On a thread of its own: a caller waits for it no longer than its call may take.
    """

    def __init__(
        self,
        engine: SyncEngine,
        world: World,
        coalescer: Callable[..., Carrier],
        opened: Callable[[], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.engine = engine
        self._opened = opened  # called at the opening, before the first call continues
        self._process: int | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._opening: Opening | None = None
        self._clock = world.monotonic
        self._coalescer = coalescer(engine, recorder, self._clock)

    def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        if self._process != opener._process or self._closed:
            self.ready_by(deadline)
        return self._coalescer.execute(ops, deadline)

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._process is not None and self._process == opener._process and not self._closed

    def ready(self) -> None:
        """Make sure the engine is open here."""
        self._opening_now().wait(None)

    def ready_by(self, deadline: float | None) -> None:
        """Wait for the opening until then; it continues in any case."""
        if not self._opening_now().wait(opener.opening_seconds(deadline, self._clock())):
            raise opener.not_opened()

    def _opening_now(self) -> Opening:
        """The opening that all who come first wait for."""
        if self._process is not None and self._process != opener._process:
            raise StoreMisused(
                "this store was used before the process forked and cannot work in the child; "
                "open it after the fork, or do not use it before (opening alone does no I/O)"
            )
        with self._lock:
            if self._closed:
                raise closed()
            opening = self._opening
            if opening is None or opening.failed or opening.process != opener._process:
                opening = self._opening = Opening(self._open)
        return opening

    def _open(self) -> None:
        self.engine.open()
        if self._opened is not None:
            self._opened()
        with self._lock:
            if not self._closed:
                self._process = opener._process
                return
        self.engine.close()  # no call waited for it any more

    def is_ours_to_close(self) -> bool:
        """Any thread may close it. In the child of a fork all of it is the parent's.

        Its locks may be held by threads that do not exist there, so that none may be asked for.
        """
        return self._process is None or self._process == opener._process

    def close(self) -> None:
        """Finish what is under way and let go of everything. Closing twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._process is not None:
            self._coalescer.drain()
            self.engine.close()


class Opening(Errand):
    """One opening, which continues even if no call waits for it any more."""

    def __init__(self, open: Callable[[], None]) -> None:
        super().__init__(open, "stateward-open")
        self.process = opener._process

    @property
    def failed(self) -> bool:
        return self.error is not None

    def wait(self, seconds: float | None) -> bool:
        """Return whether the opening has ended by then; raises the error it ended with."""
        ended = super().wait(seconds)
        if self.error is not None:
            raise own(self.error)
        return ended
