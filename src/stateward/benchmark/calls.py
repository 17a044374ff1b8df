"""Calls of a benchmark, and the data that the store is filled with before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

from stateward.audit.safety.isolation import PREFIX
from stateward.benchmark.figures import FigureCell
from stateward.store import Store

MESSAGE_BYTES = 500  # of JSON text
LAST = 20
KEPT = 86_400.0  # seconds: what could not be removed is gone in a day
CHUNK = 200  # messages in one call while a history is written
SPREAD = 1_000  # messages in all conversations of a length, at least
FEWEST = 3  # conversations of a length

Call = Callable[[int], Awaitable[Any]]  # the caller's number, from 0 on

_WORDS = (
    "The parcel left the depot on Monday evening, but the address on file is the old one. Check "
    "the new address first, then offer a second delivery or a refund, whichever is sooner. "
)


def message(role: str, number: int) -> dict[str, str]:
    """Return about 500 bytes of JSON; no two messages are alike."""
    shell = len(f'{{"role":"{role}","content":""}}')
    return {"role": role, "content": f"{number}: {_WORDS * 4}"[: MESSAGE_BYTES - shell]}


def turn(number: int) -> tuple[dict[str, str], dict[str, str]]:
    return message("user", 2 * number), message("assistant", 2 * number + 1)


def profile(number: int) -> dict[str, Any]:
    """Return a user's state of a usual size: about 400 bytes of JSON."""
    return {"name": f"user {number}", "visits": 0, "notes": _WORDS, "tone": "brief"}


def threads_of(history: int, callers: int) -> int:
    """Return the number of conversations of a length: many of short ones, so they stay short."""
    return max(FEWEST, callers, SPREAD // history)


class BenchCalls:
    """The calls of every cell, on one store."""

    def __init__(self, store: Store, lengths: dict[int, int]) -> None:
        """`lengths` says how many conversations there are of each length."""
        self._store = store
        self._lengths = lengths
        self._turns = count()
        self._tasks = count()

    async def fill(self, history: int, number: int) -> None:
        """Fill one conversation to that length."""
        thread = self._thread(history, number)
        messages = [m for n in range((history + 1) // 2) for m in turn(n)][:history]
        for first in range(0, history, CHUNK):
            await thread.append(*messages[first : first + CHUNK])

    async def greet(self, number: int) -> None:
        """Store a user with two documents."""
        await self._store.user(_user(number)).put(profile(number))
        await self._store.user(_user(number)).put({"language": "en"}, "settings")

    def of(self, cell: FigureCell) -> Call:
        """Return the function that each caller calls repeatedly on its own conversations."""
        places = self._places(cell)
        make = getattr(self, f"_{cell.operation}")
        call: Call = lambda caller: make(cell.history, next(places[caller]))  # noqa: E731
        return call

    def most(self, cell: FigureCell) -> int | None:
        """Return the most calls in all, so that appends do not lengthen histories by half.

        None: as many as there is time for.
        """
        if cell.operation != "append" or cell.conversations > 1:
            return None
        return max(1, cell.history // 4) * self._lengths[cell.history]

    def _places(self, cell: FigureCell) -> list[Iterator[int]]:
        """Return for each caller the conversations to take in turn."""
        many, callers = self._lengths[cell.history], cell.conversations

        def around(caller: int) -> Iterator[int]:
            mine = range(caller, many, callers)
            while True:
                yield from mine

        return [around(caller) for caller in range(callers)]

    def _thread(self, history: int, number: int) -> Any:
        return self._store.thread(_conversation(history, number), _user(number))

    async def _append(self, history: int, number: int) -> None:
        await self._thread(history, number).append(*turn(next(self._turns)))

    async def _last(self, history: int, number: int) -> None:
        await self._thread(history, number).load(last=LAST)

    async def _context(self, history: int, number: int) -> None:
        thread = _conversation(history, number)
        await self._store.context(user=_user(number), thread=thread, last=LAST)

    async def _get(self, _history: int, number: int) -> None:
        await self._store.user(_user(number)).get()

    async def _update(self, _history: int, number: int) -> None:
        await self._store.user(_user(number)).update(_visit)

    async def _once(self, _history: int, _number: int) -> None:
        await self._store.once(f"{PREFIX}task-{next(self._tasks)}", _work, retain=KEPT)


def _conversation(history: int, number: int) -> str:
    return f"{PREFIX}h{history}-{number}"


def _user(number: int) -> str:
    return f"{PREFIX}u-{number}"


def _visit(value: dict[str, Any]) -> None:
    value["visits"] += 1


def _work() -> str:
    return "done"
