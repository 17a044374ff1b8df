"""Stateward in both colours: as in `bench.contestants`, and with tasks that run once."""

from __future__ import annotations

from typing import Any

from bench.contestants import ours
from bench.conversations import Population
from bench.peers.shape import FINISHED, Peer


class Stateward(ours.Stateward, Peer):
    name = "Stateward"

    def __init__(self, place: str) -> None:
        Peer.__init__(self, place)
        ours.Stateward.__init__(self, place)
        self._calls = 0

    async def fill(self, population: Population) -> None:
        await ours._fill(_quick(self.place), population)
        await self._store.once(FINISHED, _one)

    async def once(self, *_: Any) -> int:
        self._calls += 1
        return await self._store.once(f"task-{self._calls}", _one)  # type: ignore[no-any-return]

    async def hit(self, *_: Any) -> int:
        return await self._store.once(FINISHED, _one)  # type: ignore[no-any-return]


class StatewardSync(ours.StatewardSync, Peer):
    name = "Stateward, blocking"

    def __init__(self, place: str) -> None:
        Peer.__init__(self, place)
        ours.StatewardSync.__init__(self, place)
        self._calls = 0

    def fill(self, population: Population) -> None:
        ours.fill_server(_quick(self.place), population)
        self._store.once(FINISHED, _one)

    def once(self, *_: Any) -> int:
        self._calls += 1
        return self._store.once(f"task-{self._calls}", _one)  # type: ignore[no-any-return]

    def hit(self, *_: Any) -> int:
        return self._store.once(FINISHED, _one)  # type: ignore[no-any-return]


def _quick(place: str) -> str:
    """Filling need not wait for the disk."""
    return place if "://" in place else f"sqlite:///{place}?durability=relaxed"


def _one() -> int:
    return 1
