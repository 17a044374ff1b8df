"""Anomalies that a checker reports."""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """A violation that a correct store never shows.

    `name` is its short name, `story` tells people what happened, `transactions` are the places
    in the history that show it.
    """

    name: str
    story: str
    transactions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.story}"
