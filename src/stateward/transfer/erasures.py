"""What must outlive a restore: that a user was erased; and what says that one is under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from stateward.kinds import ERASED, RESTORING
from stateward.ops import Entity, Head, Restore, Value
from stateward.transfer.lines import Content, DocumentLine, EntityLine


def marker(namespace: str) -> Entity:
    """There while a restore is under way, or was interrupted."""
    return Entity(namespace, RESTORING, RESTORING)


class Erasures:
    """The latest mark of every erased user, from wherever there are any.

    A mark is an entity of the kind `erased` whose id is a digest of the user's.
    """

    def __init__(self) -> None:
        self._marks: dict[str, tuple[Head, Value]] = {}
        self._there: dict[str, float] = {}  # when the target says that it was

    def add(self, id: str, head: Head, value: Value) -> None:
        known = self._marks.get(id)
        if known is None or known[1].updated < value.updated:
            self._marks[id] = (head, value)

    def add_all(self, marks: Iterable[tuple[str, Head, Value]], *, there: bool = False) -> None:
        """Those of a store; `there`: of the very namespace that is restored."""
        for id, head, value in marks:
            self.add(id, head, value)
            if there:
                self._there[id] = value.updated

    def add_lines(self, lines: Iterable[Content]) -> None:
        """Those of a backup."""
        entity: EntityLine | None = None
        for line in lines:
            if isinstance(line, EntityLine):
                entity = line if line.kind == ERASED else None
            elif entity is not None and isinstance(line, DocumentLine) and line.name == ERASED:
                self.add(entity.id, entity.head(), line.stored())

    def covers(self, line: EntityLine) -> bool:
        """Whether this belonged to a user who was erased after it was begun."""
        if not line.owner:
            return False
        mark = self._marks.get(sha256(line.owner.encode()).hexdigest())
        return mark is not None and mark[1].updated >= line.created

    def restores(self, namespace: str) -> Iterator[tuple[Entity, Restore]]:
        """How to make the namespace know all of them."""
        for id, (head, value) in self._marks.items():
            if self._there.get(id) == value.updated:
                continue
            yield Entity(namespace, ERASED, id), Restore(head, (), {ERASED: value})
