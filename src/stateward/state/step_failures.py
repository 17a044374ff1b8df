"""Failures of a run's steps: which are to be recorded, and which of them failed the run."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from stateward.codec import decode, encode
from stateward.ops import Put
from stateward.state.calls import cancellations
from stateward.state.run_record import TROUBLE, Cut, step_failure


class StepFailures:
    """What steps of a run raised, until it is recorded."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()  # by step
        self.driver: Any = None
        self._raised: list[tuple[str, BaseException]] = []  # to tell which one failed the run
        self._unrecorded: dict[str, str] = {}  # by step, as they are recorded
        self._cuts: dict[str, Cut] = {}  # of those, steps that were cancelled
        self.driver = asyncio.current_task()  # async only

    def raised(self, id_: str, error: BaseException) -> None:
        """A step or a wait raises this, for the first time or again."""
        self._raised.append((id_, error))

    def add(self, id_: str, error: BaseException) -> None:
        """A step failed with this. It is recorded if the run goes on."""
        self.raised(id_, error)
        self._unrecorded[id_] = step_failure(id_, error)

    # async only: begin
    def note_cut(self, id_: str, error: BaseException, here: int, driver: int) -> None:
        """A step that was cancelled by a timeout around it, perhaps: then the run goes on.

        `here` and `driver` are how often this task and the driver's were cancelled before it.
        """
        if isinstance(error, asyncio.CancelledError) and cancellations() > here:
            cut_short = TimeoutError(f"the step {id_!r} was cut short")
            self._unrecorded[id_] = step_failure(id_, cut_short, cut_short=True)
            self._cuts[id_] = Cut(driver, asyncio.all_tasks())

    def _taken_in(self, cut: Cut) -> bool:
        """Whether the run goes on after a cancellation, told by whoever asks for something now.

        The driver's count alone does not tell: a `TaskGroup` may have left it too high. One that is
        being cancelled is, when it asks for something, handling just that.
        """
        if cancellations(self.driver) <= cut.before:
            return True
        task = asyncio.current_task()
        if task is not self.driver and task in cut.tasks:
            return False
        return not isinstance(sys.exc_info()[1], asyncio.CancelledError)

    # async only: end

    def due(self) -> dict[str, str]:
        """Failures that are to be recorded now.

        A step that was cancelled has failed only if the run was not: then somebody took the
        cancellation in.
        """
        cut: set[str] = set()
        cut = {id_ for id_, cut in self._cuts.items() if not self._taken_in(cut)}  # async only
        return {id_: body for id_, body in self._unrecorded.items() if id_ not in cut}

    def recorded(self, id_: str) -> None:
        """This one is recorded now."""
        self._unrecorded.pop(id_, None)
        self._cuts.pop(id_, None)

    def trouble(self, id_: str, error: Mapping[str, Any]) -> Put:
        """What has `WorkflowInfo` show a failure of this step."""
        told = {name: error[name] for name in ("type", "message", "permanent")}
        record = told | {"step": id_, "attempt": self.attempts[id_]}
        return Put(TROUBLE, encode(record, "the failure"))

    def latest_trouble(self, failures: Mapping[str, str]) -> Put:
        """The same of the last of these."""
        id_, body = list(failures.items())[-1]
        return self.trouble(id_, decode(body)["failed"])

    def blamed(self, error: BaseException) -> tuple[list[str], int]:
        """The steps whose failure this is, or comes of, and how often they were tried at most."""
        errors = [error]
        for each in errors:
            if each.__cause__ is not None and each.__cause__ not in errors:
                errors.append(each.__cause__)
            errors += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        steps = {id_: None for id_, raised in self._raised if any(raised is e for e in errors)}
        return list(steps), max((self.attempts[id_] for id_ in steps), default=0)
