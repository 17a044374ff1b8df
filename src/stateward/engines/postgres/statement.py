"""One statement of a batch. No I/O: both colours send it and hand back its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateward.engines.postgres.arrays import TextArray
from stateward.engines.postgres.escape import stored
from stateward.ops import Entity

Rows = Sequence[Sequence[Any]]


class Statement:
    """One statement, and the places in the batch that its rows answer."""

    __slots__ = ("params", "query", "read")

    def __init__(
        self, query: str, params: Sequence[Any], read: Callable[[Rows, list[Any]], None]
    ) -> None:
        self.query = query
        self.params = params
        self.read = read


def addresses(entities: Sequence[Entity]) -> tuple[TextArray, TextArray, TextArray]:
    return (
        TextArray([stored(entity.namespace) for entity in entities]),
        TextArray([stored(entity.kind) for entity in entities]),
        TextArray([stored(entity.id) for entity in entities]),
    )
