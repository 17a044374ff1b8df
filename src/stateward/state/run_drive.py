"""One drive of a workflow: its lease, record and clock, and whether it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stateward.errors import LeaseLost, StatewardError, WorkflowCancelled, WorkflowFinished
from stateward.layers.leases.held import HeldLease
from stateward.ops import Log
from stateward.state.handle import Handle
from stateward.state.loose_ends import LooseEnds
from stateward.state.run_record import Parked, RunRecord
from stateward.state.work import OF_THE_STORE
from stateward.state.workflow_record import CANCELLED


class Drive:
    """The state that all parts of a run share."""

    def __init__(
        self,
        handle: Handle,
        status: str,
        record: RunRecord,
        loose_ends: LooseEnds,
        held: HeldLease | None,
        clock: float,
        since: float,
        deaths: int,
    ) -> None:
        self.handle = handle
        self.scope = handle.scope
        self.entity = handle.entity
        self.id = handle.entity.id
        self.status = status  # as of entering
        self.record = record
        self.loose_ends = loose_ends
        self.held = held  # None: a workflow that has ended is replayed
        self.since = since  # when it was entered, by the engine's clock
        self.deaths = deaths  # drivers before this one that died without having recorded anything
        self.parked = False
        self.cut_off = False  # whether it was parked while a branch could continue
        self.broken: StatewardError | None = None
        self.left = False
        self._clock = clock  # the engine's clock minus ours

    def check(self, what: str) -> None:
        """Raise unless the run may continue with this call."""
        if self.parked:
            raise Parked
        if self.left:
            raise LeaseLost(f"the block of the workflow {self.id!r} was left before {what}")
        if self.broken is not None:
            raise self.broken
        if self.held is None and self.status == CANCELLED:
            raise WorkflowCancelled(f"the workflow {self.id!r} was cancelled before {what}")
        if self.held is None:
            raise WorkflowFinished(
                f"the workflow {self.id!r} has already {self.status} and did not record {what}"
            )
        try:
            self.held.check()
        except LeaseLost as error:
            self.broken = error
            raise

    def now(self) -> float:
        """Return the engine's time, estimated from our clock."""
        return self.scope.world.monotonic() + self._clock

    def set_clock(self, at: float) -> None:
        """Correct the estimate: the engine's time is `at` now."""
        self._clock = at - self.scope.world.monotonic()

    async def catch_up(self) -> None:
        """Read the entries that others (signals, transitions) have appended since."""
        fetched = await self.handle.fetch(Log(self.record.version, details=True))
        for entry in fetched.entries:
            self.record.add(entry)

    async def owner(self) -> str:
        """Return the owner of the workflow, which is read if the caller did not name it."""
        if self.handle.owner is None:
            return str((await self.beside(self.handle.fetch)).head.owner)
        return self.handle.owner

    async def beside(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call another entity. If the store fails, the outcome is unknown, and the run is over."""
        try:
            return await call(*args, **options)
        except OF_THE_STORE as error:
            self.broken = error
            raise
