"""What a peer has to offer: the calls of `bench.contestants.shape`, as many of them as it has.

A peer opens a place that is empty (a file, a folder, a database, a server of its own) and fills it
itself. It takes part in those cells for which it has a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from bench.conversations import LAST, Message, Population, Turn, turn

METHODS = ("append", "last", "context", "get", "update", "once", "hit")
FINISHED = "finished"  # the id of a task that ran before anything is measured


class Peer:
    """What all have in common; `..table` says who takes part on which engine."""

    name: ClassVar[str]
    colour: ClassVar[str]  # "async" or "sync"
    longest: ClassVar[int] = 10_000  # messages: where a call grows with the history, fewer

    def __init__(self, place: str) -> None:
        self.place = place

    @classmethod
    def offers(cls) -> frozenset[str]:
        return frozenset(method for method in METHODS if callable(getattr(cls, method, None)))

    def said(self, found: Sequence[Any]) -> list[Message]:
        """The messages that `last` gave, in the form in which they were told."""
        return list(found)


def conversations(population: Population, longest: int) -> Iterator[tuple[str, str, list[Message]]]:
    """What a store is filled with: id, user, messages; without those that are too long for it."""
    for thread, user, history in population.owners():
        if history <= longest:
            yield thread, user, [message for n in range(history // 2) for message in turn(n)]


def text(turn: Turn) -> tuple[str, str]:
    """A question and its answer."""
    return turn[0]["content"], turn[1]["content"]


__all__ = ["FINISHED", "LAST", "METHODS", "Peer", "conversations", "text"]
