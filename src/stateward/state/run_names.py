"""The names of what a run asks for, and how it finds again what is recorded under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.state.run_record import RunRecord


class RunNames:
    """By their order, what is asked for twice under one name is told apart."""

    def __init__(self, workflow: str, record: RunRecord) -> None:
        self._workflow = workflow
        self._record = record
        self._asked: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._open: set[str] = set()  # names that are asked for and not answered
        self._marked = False  # whether a checkpoint is being recorded

    def number(self, name: str) -> str:
        """The id of this occurrence: name#1, name#2 …; after the third checkpoint, name#3.1 …"""
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
        """The id of what was asked for last under this name."""
        return f"{name}#{self._record.mark}{self._asked[name]}"

    @property
    def total(self) -> int:
        """How much was asked for so far."""
        return self._asked.total()

    @property
    def unasked(self) -> list[str]:
        """Recorded steps that were not asked for (yet)."""
        return sorted(self._record.steps.keys() - self._answered)

    @contextmanager
    def alone(self, name: str, what: str) -> Iterator[None]:
        """While nothing else of that name is under way.

        Two of one name are told apart by their order, which is another in a replay, where what is
        recorded takes no time.
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
        """While a checkpoint is recorded, and nothing else is under way."""
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
        """A checkpoint is recorded: nothing from before it is asked for again."""
        self._asked.clear()
        self._answered.clear()
