"""One statement of a batch. No I/O: both colours send it and hand back its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateward.engines.postgres.arrays import TextArray
from stateward.engines.postgres.escape import escape
from stateward.ops import Entity

Rows = Sequence[Sequence[Any]]


class Statement:
    """One statement, with the function that turns its rows into outcomes."""

    __slots__ = ("params", "query", "read")

    def __init__(
        self, query: str, params: Sequence[Any], read: Callable[[Rows, list[Any]], None]
    ) -> None:
        self.query = query
        self.params = params
        self.read = read


def statement_of(
    index: int, query: str, params: Sequence[Any], outcome: Callable[[Rows], Any]
) -> Statement:
    """Return the statement of one operation, which is at this index of its batch."""

    def read(rows: Rows, outcomes: list[Any]) -> None:
        outcomes[index] = outcome(rows)

    return Statement(query, params, read)


def addresses(entities: Sequence[Entity]) -> tuple[TextArray, TextArray, TextArray]:
    return (
        TextArray([escape(entity.namespace) for entity in entities]),
        TextArray([escape(entity.kind) for entity in entities]),
        TextArray([escape(entity.id) for entity in entities]),
    )
