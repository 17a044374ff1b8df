"""Marks that outlive a restore: of erased users, and of a restore in progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from math import inf
from typing import NamedTuple

from stateward.kinds import ERASED, ERASED_ALL, RESTORING
from stateward.ops import Entity, Head, Restore, Value
from stateward.transfer.lines import Content, DocumentLine, EntityLine


def marker(namespace: str) -> Entity:
    """Return the entity that exists while a restore is in progress or interrupted."""
    return Entity(namespace, RESTORING, RESTORING)


class Mark(NamedTuple):
    """An entity of the kind `erased`, whose id is a digest of the user's id."""

    id: str
    head: Head
    documents: dict[str, Value]

    @property
    def at(self) -> float:
        """Return the time at which the erasure began."""
        return self.documents[ERASED].updated

    @property
    def done(self) -> float:
        """Return the time at which the erasure was complete; infinity if it never was."""
        done = self.documents.get(ERASED_ALL)
        return inf if done is None or done.updated < self.at else done.updated


class Erasures:
    """The latest mark of every erased user, from all sources."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._there: dict[str, Mark] = {}  # marks of the target
        self._source: dict[str, Mark] = {}  # marks of the source that is restored

    def add_all(self, marks: Iterable[Mark], *, there: bool = False, source: bool = False) -> None:
        """Add the marks of a store or backup; `there`: the marks are of the target namespace.

        `source`: the marks are of the source that is restored.
        """
        for mark in marks:
            recorded = self._marks.get(mark.id)
            if recorded is None or (recorded.at, -recorded.done) < (mark.at, -mark.done):
                self._marks[mark.id] = mark
            if there:
                self._there[mark.id] = mark
            if source:
                self._source[mark.id] = mark

    def covers(self, line: EntityLine) -> bool:
        """Return whether an entity belonged to a user who was erased after the entity was created.

        An entity that was changed in the source after the erasure was complete is not covered:
        the user has claimed the entity since.
        """
        if not line.owner:
            return False
        id = sha256(line.owner.encode()).hexdigest()
        mark, own = self._marks.get(id), self._source.get(id)
        if mark is None or mark.at < line.created:
            return False
        return own is None or own.at < mark.at or line.updated <= own.done

    def restores(self, namespace: str) -> Iterator[tuple[Entity, Restore]]:
        """Yield a restore for each mark that the namespace lacks or has in another state."""
        for id, mark in self._marks.items():
            there = self._there.get(id)
            if there is None or (there.at, there.done) != (mark.at, mark.done):
                yield Entity(namespace, ERASED, id), Restore(mark.head, (), mark.documents)


def marks_of(lines: Iterable[Content]) -> Iterator[Mark]:
    """Yield the marks of a backup; reads the backup to its end."""
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
