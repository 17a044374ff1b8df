"""The steps of a run: tried, timed and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stateward.codec import decode
from stateward.errors import Permanent
from stateward.state.calls import awaited, cancellations
from stateward.state.failure_record import raised_again
from stateward.state.run_branches import Branches
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive
from stateward.state.run_record import Parked
from stateward.state.step_failures import StepFailures
from stateward.state.work import ENDS, OF_THE_STORE, holds, result_json, working_on

FIRST_PAUSE = 0.5  # before a failed step is tried again; doubles
LONGEST_PAUSE = 60.0


class Steps:
    """Runs each step until its end is recorded, and never again."""

    def __init__(
        self, drive: Drive, branches: Branches, commits: RunCommits, failures: StepFailures
    ) -> None:
        self._drive = drive
        self._branches = branches
        self._commits = commits
        self._failures = failures

    def has(self, id_: str) -> bool:
        """Return whether the end of this step is recorded."""
        return id_ in self._drive.record.failures or id_ in self._drive.record.steps

    async def recorded(self, id_: str) -> Any:
        """Return the recorded result of a step, or raise its recorded failure."""
        record = self._drive.record
        if id_ in record.failures:  # goes first: a step may be cut short while its result is stored
            failed = record.failures[id_]
            # async only: begin
            if failed.get("cut_short"):
                await self._branches.moment()  # let the timeout around it be faster again
            # async only: end
            error = raised_again(failed)
            self._failures.raised(id_, error)
            raise error
        return record.value(id_)

    async def run(
        self,
        id_: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        retries: int = 0,
        timeout: float | None = None,
    ) -> Any:
        """Run a step, record its end, and return the result."""
        drive, failures = self._drive, self._failures
        await self._commits.record_failures()  # they may be the reason for this step
        here, driver = cancellations(), cancellations(failures.driver)  # async only
        try:
            value = await self._try(id_, function, args, kwargs, retries, timeout)
            text = result_json(value, f"the step {id_!r}", drive.scope.limits)
        except BaseException as error:
            if holds(error, OF_THE_STORE) or holds(error, (*ENDS, Parked)) or drive.broken:
                raise  # not a failure of the step, which is still to be done
            failures.add(id_, error)
            failures.note_cut(id_, error, here, driver)  # async only
            raise
        body, parts = drive.record.step_body(id_, text)
        drive.loose_ends.close(id_)
        # async only: begin
        try:
            await self._commits.append(f"step:{id_}", body)
        except asyncio.CancelledError as error:  # perhaps stored, but not returned to anyone
            failures.note_cut(id_, error, here, driver)
            raise
        # async only: end
        # sync only: self._commits.append(f"step:{id_}", body)
        drive.record.stepped(id_, parts)
        return decode(text)["value"]  # the same value as in every replay

    async def _try(
        self,
        id_: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        retries: int,
        timeout: float | None,
    ) -> Any:
        world = self._drive.scope.world
        longest = FIRST_PAUSE
        for left in range(retries, -1, -1):
            self._failures.attempts[id_] += 1
            try:
                with working_on((*self._drive.entity, id_)):
                    if timeout is not None:
                        return await self._in_time(id_, timeout, function, args, kwargs)
                    return await awaited(function(*args, **kwargs))
            except Exception as error:
                if not left or self._drive.broken or holds(error, (Permanent, *OF_THE_STORE)):
                    raise
                await self._commits.show_trouble(id_, error)
            await world.pause(longest * (0.5 + world.random() / 2))
            longest = min(longest * 2, LONGEST_PAUSE)
            self._drive.check(f"the step {id_!r}")
        raise AssertionError("unreachable")

    async def _in_time(
        self, id_: str, timeout: float, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Return the result of the function; raises `TimeoutError` if it takes too long."""
        world = self._drive.scope.world
        started = world.monotonic()
        # async only: begin
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                value = await awaited(function(*args, **kwargs))
        except TimeoutError as error:
            if limit.expired():
                raise _too_long(id_, timeout) from error
            raise  # the function's own
        # async only: end
        # sync only: value = awaited(function(*args, **kwargs))
        if world.monotonic() - started > timeout:
            raise _too_long(id_, timeout)
        return value


def _too_long(id_: str, timeout: float) -> TimeoutError:
    return TimeoutError(f"the step {id_!r} took longer than {timeout:g} s")
