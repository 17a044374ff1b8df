"""Failures of a run's steps: which to record, and which of them failed the run."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from stateward.codec import decode, encode
from stateward.ops import Put
from stateward.state.calls import cancellations
from stateward.state.failure_record import step_failure
from stateward.state.workflow_record import TROUBLE


class Cut(NamedTuple):
    """A step that was cancelled."""

    before: int  # how often the driver had been cancelled when the step began
    tasks: Set[object]  # all tasks that existed when it was cancelled


class StepFailures:
    """Failures of steps, held until they are recorded."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()  # by step
        self.driver: Any = None
        self._raised: list[tuple[str, BaseException]] = []  # to tell which one failed the run
        self._unrecorded: dict[str, str] = {}  # by step, as they are recorded
        self._cuts: dict[str, Cut] = {}  # of those, steps that were cancelled
        self.driver = asyncio.current_task()  # async only

    def raised(self, id_: str, error: BaseException) -> None:
        """Note that a step or a wait raises this error, for the first time or in a replay."""
        self._raised.append((id_, error))

    def add(self, id_: str, error: BaseException) -> None:
        """Add the failure of a step. It is recorded if the run continues."""
        self.raised(id_, error)
        self._unrecorded[id_] = step_failure(id_, error)

    # async only: begin
    def note_cut(self, id_: str, error: BaseException, here: int, driver: int) -> None:
        """Note a cancelled step: if only a timeout around it cancelled it, the run continues.

        `here` and `driver` count the cancellations of this task and of the driver's before it.
        """
        if isinstance(error, asyncio.CancelledError) and cancellations() > here:
            cut_short = TimeoutError(f"the step {id_!r} was cut short")
            self._unrecorded[id_] = step_failure(id_, cut_short, cut_short=True)
            self._cuts[id_] = Cut(driver, asyncio.all_tasks())

    def _taken_in(self, cut: Cut) -> bool:
        """Whether the run continues after a cancellation, judged by the task that calls now.

        The driver's count alone is not enough: a `TaskGroup` may have left it too high. A task that
        is being cancelled and calls nevertheless is handling the `CancelledError`.
        """
        if cancellations(self.driver) <= cut.before:
            return True
        task = asyncio.current_task()
        if task is not self.driver and task in cut.tasks:
            return False
        return not isinstance(sys.exc_info()[1], asyncio.CancelledError)

    # async only: end

    def due(self) -> dict[str, str]:
        """Return the failures to record now.

        A cancelled step counts as failed only if the run continues: then its code has handled the
        cancellation.
        """
        cut: set[str] = set()
        cut = {id_ for id_, cut in self._cuts.items() if not self._taken_in(cut)}  # async only
        return {id_: body for id_, body in self._unrecorded.items() if id_ not in cut}

    @property
    def unrecorded(self) -> list[str]:
        """The steps whose failures are not recorded."""
        return list(self._unrecorded)

    def recorded(self, id_: str) -> None:
        """Forget a failure that is recorded now."""
        self._unrecorded.pop(id_, None)
        self._cuts.pop(id_, None)

    def trouble(self, id_: str, error: Mapping[str, Any]) -> Put:
        """Return the write that makes `WorkflowInfo` show a failure of this step."""
        record = {name: error[name] for name in ("type", "message", "permanent")}
        record |= {"step": id_, "attempt": self.attempts[id_]}
        return Put(TROUBLE, encode(record, "the failure"))

    def latest_trouble(self, failures: Mapping[str, str]) -> Put:
        """Return the write that makes `WorkflowInfo` show the last of these failures."""
        id_, body = list(failures.items())[-1]
        return self.trouble(id_, decode(body)["failed"])

    def blamed(self, error: BaseException) -> tuple[list[str], int]:
        """Return the steps whose failure caused this error, and the most attempts among them."""
        errors = [error]
        for each in errors:
            if each.__cause__ is not None and each.__cause__ not in errors:
                errors.append(each.__cause__)
            errors += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        steps = {id_: None for id_, raised in self._raised if any(raised is e for e in errors)}
        return list(steps), max((self.attempts[id_] for id_ in steps), default=0)
