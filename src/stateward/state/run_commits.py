"""Commits of a run: each has the driver's fence, and the failures of steps before it."""

from __future__ import annotations

import asyncio

from stateward.codec import decode
from stateward.errors import LeaseLost, WorkflowCancelled
from stateward.ops import (
    Append,
    Applied,
    Check,
    Conflict,
    Fenced,
    KeyReused,
    Outcome,
    StatusIn,
    Write,
)
from stateward.state.refusals import refuse, stored
from stateward.state.run_drive import Drive
from stateward.state.step_failures import StepFailures
from stateward.state.work import OF_THE_STORE, error_record
from stateward.state.workflow_record import ACTIVE, CANCELLED, ERROR, NOBODY_DRIVES

STILL_ACTIVE = StatusIn((ACTIVE,))


class RunCommits:
    """Makes all writes of a run to its workflow."""

    def __init__(self, drive: Drive, failures: StepFailures) -> None:
        self._drive = drive
        self._failures = failures
        self._failing = asyncio.Lock()  # async only

    async def commit(self, writes: tuple[Write, ...], *checks: Check) -> tuple[Outcome, int]:
        """Commit with the driver's fence; returns the outcome and the number of failures added.

        If the commit is refused or uncertain, the run is over. Failures of steps after which the
        run continued are recorded with it, before anything that results from them. Until then they
        had no consequences, and a replay may run the step again.
        """
        # async only: begin
        async with self._failing:  # a failure is recorded before its consequences
            failures = self._failures.due()
            if failures or self._drive.loose_ends.changed:
                return await self._commit_with(failures, writes, checks), len(failures)
        # async only: end
        # sync only: if failures := self._failures.due():
        # sync only:     return self._commit_with(failures, writes, checks), len(failures)
        return await self._commit_with({}, writes, checks), 0

    async def record_failures(self) -> None:
        """Record failures and loose ends now, not with the next commit."""
        # async only: begin
        async with self._failing:  # another branch may just be doing it
            failures = self._failures.due()
            if failures or self._drive.loose_ends.changed:
                stored(await self._commit_with(failures, (), ()), self._drive.entity)
        # async only: end
        # sync only: failures = self._failures.due()
        # sync only: if failures or self._drive.loose_ends.changed:
        # sync only:     stored(self._commit_with(failures, (), ()), self._drive.entity)

    async def append(self, key: str, body: str) -> Applied:
        """Append an entry to the log, under its key."""
        record = self._drive.record
        if record.retried:
            key = f"{key}:{record.retried}"  # the key may have been used before the retry
        writes: tuple[Write, ...] = (Append((body,), key),)
        if self._drive.deaths:
            writes = (*writes, NOBODY_DRIVES)  # this is progress: deaths are counted again from 0
        outcome, failures = await self.commit(writes)
        applied = stored(outcome, self._drive.entity)
        self._drive.deaths = 0
        if outcome is applied:  # stored just now, not at an earlier try
            self._drive.set_clock(applied.at)
        if applied.version == record.version + failures + 1:
            record.version = applied.version  # else signals came in between, and are unread
        return applied

    async def show_trouble(self, id_: str, error: BaseException) -> None:
        """Store a failure for `WorkflowInfo` before the next try, if the store answers."""
        drive = self._drive
        assert drive.held is not None
        trouble = self._failures.trouble(id_, error_record(error))
        try:
            await drive.handle.commit((trouble,), (drive.held.fence,))
        except OF_THE_STORE:
            pass  # the next commit fails too if the store is still down

    async def stop(self, writes: tuple[Write, ...] = ()) -> None:
        """Raise `WorkflowCancelled`, after recording the step that has just finished."""
        drive = self._drive
        assert drive.held is not None
        if writes and isinstance(writes[0], Append):
            checks = (drive.held.fence, StatusIn((CANCELLED, ACTIVE)))
            outcome = await drive.handle.commit(writes, checks)
            if isinstance(outcome, Fenced):
                refuse(outcome, drive.entity)
        fetched = await drive.handle.fetch(documents=(ERROR,))
        error = fetched.documents.get(ERROR)
        reason = decode(error.json)["message"] if error is not None else ""
        drive.broken = WorkflowCancelled(
            f"the workflow {drive.id!r} was cancelled{': ' if reason else ''}{reason}"
        )
        raise drive.broken

    async def _commit_with(
        self, failures: dict[str, str], writes: tuple[Write, ...], checks: tuple[Check, ...]
    ) -> Outcome:
        drive, loose_ends = self._drive, self._drive.loose_ends
        assert drive.held is not None
        if failures and writes and isinstance(writes[0], Append):
            both = Append((*failures.values(), *writes[0].bodies), writes[0].key)
            writes = (both, *writes[1:])
        elif failures:
            writes = (*writes, Append(tuple(failures.values())))
        for id_ in failures:
            loose_ends.close(id_)
        if failures:
            writes = (*writes, self._failures.latest_trouble(failures))
        loose = loose_ends.changed
        if loose:
            writes = (*writes, loose_ends.put)
            loose_ends.changed = False
        try:
            fence = drive.held.fence
            outcome = await drive.handle.commit(writes, (fence, STILL_ACTIVE, *checks))
            if isinstance(outcome, Conflict) and outcome.failed == STILL_ACTIVE:
                await self.stop(writes)
            if isinstance(outcome, KeyReused):
                raise LeaseLost(
                    f"another driver of the workflow {drive.id!r} recorded {outcome.key!r}"
                )
            if isinstance(outcome, Fenced):
                refuse(outcome, drive.entity)
        except OF_THE_STORE as error:
            drive.broken = error
            raise
        if isinstance(outcome, Conflict):
            loose_ends.changed |= loose
        else:
            for id_, body in failures.items():
                drive.record.failures[id_] = decode(body)["failed"]
                self._failures.recorded(id_)
        return outcome
