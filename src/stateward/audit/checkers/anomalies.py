"""What a checker finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Anomaly(NamedTuple):
    """Something that a correct store never does.

    `name` is its short name, `story` tells people what happened, `transactions` are the places
    in the history that show it.
    """

    name: str
    story: str
    transactions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.story}"


def names(anomalies: Iterable[Anomaly]) -> set[str]:
    """The kinds of anomaly among these."""
    return {anomaly.name for anomaly in anomalies}


def tell(anomalies: Iterable[Anomaly]) -> str:
    """All of them as one text, for a failing test or a report."""
    return "\n\n".join(str(anomaly) for anomaly in anomalies)
