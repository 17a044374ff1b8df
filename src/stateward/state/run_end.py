"""The end of a run: its outcome recorded, its lease given back, its loose ends tied up."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from stateward.codec import encode
from stateward.errors import Permanent, Reset, StoreUnavailable, WorkflowCancelled
from stateward.layers.leases.held import HeldLease
from stateward.ops import Append, Applied, Conflict, Put, SetHead, StatusIn, Write
from stateward.state.handle import Handle
from stateward.state.interventions import tie_up
from stateward.state.machine import not_active
from stateward.state.refusals import stored
from stateward.state.run import Run
from stateward.state.work import OF_THE_STORE, error_record, result_json
from stateward.state.workflow_record import ACTIVE, COMPLETED, ERROR, FAILED, NOBODY_DRIVES, RESULT

logger = logging.getLogger("stateward.workflows")

TO_OTHERS = (SetHead(due_in=0), NOBODY_DRIVES)  # written with a lease that is given back


class RunEnd:
    """Ends a run that still holds its lease; without a run, a workflow that was not entered."""

    def __init__(self, handle: Handle, held: HeldLease, run: Run | None = None) -> None:
        self._handle = handle
        self._held = held
        self._run = run
        self._leases = handle.scope.leases

    async def complete(self, run: Run) -> BaseException | None:
        """Record that the run is done; return the error if it was cancelled or cannot be stored."""
        workflow = self._handle.entity.id
        writes: tuple[Write, ...] = ()
        try:
            if run.result is not None:
                limits = self._handle.scope.limits
                text = result_json(run.result, f"the workflow {workflow!r}", limits)
                writes = (Put(RESULT, text),)
            await run._commits.record_failures()
        except Permanent as error:
            await self.fail(error)
            return error
        except WorkflowCancelled as error:
            await self.cancelled()
            return error
        ended = await self._end(COMPLETED, *writes)
        if run.unasked:  # the code has changed since these steps were recorded: not fatal
            logger.warning(
                "workflow_steps_not_asked_for", extra={"workflow": workflow, "steps": run.unasked}
            )
        await self._report_untaken(run, ended.version)
        return None

    async def fail(self, error: BaseException) -> None:
        """Record the failure, with the steps to blame, in the log and where listings show it."""
        why = error_record(error)
        failed = Append((encode({"failed": why}, "the failure"),))
        if self._run is not None:
            steps, attempt = self._run._failures.blamed(error)
            why |= {"steps": steps, "step": steps[0] if steps else None, "attempt": attempt}
            why["unrecorded"] = self._run._failures.unrecorded
        await self._end(FAILED, failed, Put(ERROR, encode(why, "the failure")))

    async def cancelled(self) -> None:
        """Give back the lease of a workflow that was cancelled while it was driven here."""
        writes = (*TO_OTHERS, *self._opened())
        stored(await self._leases.finish(self._held, *writes), self._handle.entity)
        await self._tie_up()

    async def _end(self, status: str, *writes: Write) -> Applied:
        """Commit the end if the workflow is still active; of concurrent ends, one is stored."""
        # The workflow stays due until its loose ends are tied up: a worker does it if we die.
        run, entity = self._run, self._handle.entity
        loose = run is None or run.has_loose_ends
        retain = None if run is None or run._has_parent else run.retain
        end = SetHead(status=status, due=None if loose else 0, due_in=0 if loose else None)
        end = replace(end, retain=retain)
        writes = (end, *writes, NOBODY_DRIVES, *self._opened())
        outcome = await self._leases.finish(self._held, *writes, checks=(StatusIn((ACTIVE,)),))
        if isinstance(outcome, Conflict):
            await self.cancelled()
            raise not_active(entity, outcome.head)
        ended = stored(outcome, entity)
        if loose:
            await self._tie_up()
        return ended

    def _opened(self) -> tuple[Write, ...]:
        """Return the write of what was opened since the last record, e.g. by what failed."""
        loose = None if self._run is None else self._run._drive.loose_ends
        return (loose.put,) if loose is not None and loose.changed else ()

    async def _tie_up(self) -> None:
        """Tie up the loose ends; if the store is down, a worker does it later."""
        try:
            await tie_up(self._handle)
        except StoreUnavailable as error:
            self._warn("workflow_not_tied_up", error)

    async def _report_untaken(self, run: Run, version: int) -> None:
        """Log the names of accepted signals that the code did not wait for."""
        try:
            signals = await run._untaken(version)
        except (*OF_THE_STORE, Reset) as error:  # the completion is recorded all the same
            self._warn("workflow_signals_not_read", error)
            return
        if signals:
            extra = {"workflow": self._handle.entity.id, "signals": signals}
            logger.warning("workflow_signals_not_taken", extra=extra)

    def _warn(self, event: str, error: BaseException) -> None:
        extra = {"workflow": self._handle.entity.id, "error": type(error).__name__}
        logger.warning(event, extra=extra)
