"""Names of a run's calls, and the ids under which their answers are recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.state.run_record import RunRecord


class RunNames:
    """Numbers calls of one name in their order, so that a replay gives them the same ids."""

    def __init__(self, workflow: str, record: RunRecord) -> None:
        self._workflow = workflow
        self._record = record
        self._asked: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._open: set[str] = set()  # names of calls in progress
        self._marked = False  # whether a checkpoint is being recorded

    def number(self, name: str) -> str:
        """Return the id of a new call: name#1, name#2 …; after the third checkpoint, name#3.1 …"""
        check_id(name, "the name of a step")
        if self._marked:
            raise InvalidInput(
                f"{name!r} of the workflow {self._workflow!r} was called while a checkpoint is "
                "being recorded"
            )
        self._asked[name] += 1
        id_ = self.latest(name)
        self._answered.add(id_)
        return id_

    def latest(self, name: str) -> str:
        """Return the id of the last call of this name."""
        return f"{name}#{self._record.mark}{self._asked[name]}"

    @property
    def total(self) -> int:
        """The number of calls so far."""
        return self._asked.total()

    @property
    def unasked(self) -> list[str]:
        """Recorded steps that were not called (yet)."""
        return sorted(self._record.steps.keys() - self._answered)

    @contextmanager
    def alone(self, name: str, what: str) -> Iterator[None]:
        """Enclose a call; raises if another one of that name is in progress.

        Calls of one name are numbered in their order. Concurrent ones could have another order in a
        replay, where recorded answers take no time.
        """
        if name in self._open:
            raise InvalidInput(
                f"{what} of the workflow {self._workflow!r} was called while another with the "
                "same name is running; give concurrent ones distinct names"
            )
        self._open.add(name)
        try:
            yield
        finally:
            self._open.discard(name)

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Enclose a checkpoint; raises if any other call is in progress."""
        if self._open or self._marked:
            raise InvalidInput(
                f"the workflow {self._workflow!r} takes a checkpoint while a step, a wait or "
                "another checkpoint is in progress; take it when all branches are done"
            )
        self._marked = True
        try:
            yield
        finally:
            self._marked = False

    def count_anew(self) -> None:
        """Start counting again after a checkpoint, before which nothing is called again."""
        self._asked.clear()
        self._answered.clear()
