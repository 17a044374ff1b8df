"""What must outlive a restore: that a user was erased; and what says that one is in progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from math import inf
from typing import NamedTuple

from stateward.kinds import ERASED, ERASED_ALL, RESTORING
from stateward.ops import Entity, Head, Restore, Value
from stateward.transfer.lines import Content, DocumentLine, EntityLine


def marker(namespace: str) -> Entity:
    """There while a restore is in progress, or was interrupted."""
    return Entity(namespace, RESTORING, RESTORING)


class Mark(NamedTuple):
    """An entity of the kind `erased`; its id is a digest of the user's."""

    id: str
    head: Head
    documents: dict[str, Value]

    @property
    def at(self) -> float:
        """When the erasure began."""
        return self.documents[ERASED].updated

    @property
    def done(self) -> float:
        """When nothing of the user was left; infinite: that did not come to pass."""
        done = self.documents.get(ERASED_ALL)
        return inf if done is None or done.updated < self.at else done.updated


class Erasures:
    """The latest mark of every erased user, from wherever there are any."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._there: dict[str, Mark] = {}  # what the target says
        self._source: dict[str, Mark] = {}  # what the source of what is restored says

    def add_all(self, marks: Iterable[Mark], *, there: bool = False, source: bool = False) -> None:
        """Those of a store or backup; `there`: of the very namespace that is restored.

        `source`: of where what is restored comes from.
        """
        for mark in marks:
            known = self._marks.get(mark.id)
            if known is None or (known.at, -known.done) < (mark.at, -mark.done):
                self._marks[mark.id] = mark
            if there:
                self._there[mark.id] = mark
            if source:
                self._source[mark.id] = mark

    def covers(self, line: EntityLine) -> bool:
        """Whether this belonged to a user who was erased after it was begun.

        What the source still has, and was changed there after that erasure was done, is not meant:
        the user has claimed it since.
        """
        if not line.owner:
            return False
        id = sha256(line.owner.encode()).hexdigest()
        mark, own = self._marks.get(id), self._source.get(id)
        if mark is None or mark.at < line.created:
            return False
        return own is None or own.at < mark.at or line.updated <= own.done

    def restores(self, namespace: str) -> Iterator[tuple[Entity, Restore]]:
        """How to make the namespace know all of them."""
        for id, mark in self._marks.items():
            there = self._there.get(id)
            if there is None or (there.at, there.done) != (mark.at, mark.done):
                yield Entity(namespace, ERASED, id), Restore(mark.head, (), mark.documents)


def marks_of(lines: Iterable[Content]) -> Iterator[Mark]:
    """Those of a backup, which is read to its end."""
    mark: Mark | None = None
    for line in lines:
        if isinstance(line, EntityLine):
            if mark is not None and ERASED in mark.documents:
                yield mark
            mark = Mark(line.id, line.head(), {}) if line.kind == ERASED else None
        elif mark is not None and isinstance(line, DocumentLine):
            mark.documents[line.name] = line.stored()
    if mark is not None and ERASED in mark.documents:
        yield mark
