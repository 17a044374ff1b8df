"""The one shape of all contestants.

A contestant opens a file that was filled for its layout, and offers a few calls. Each call
takes ids and plain values and does all that an application would: JSON included, one durable
transaction a write. Blocking contestants are called from several threads at once, the others
from several tasks of one event loop.

Some also offer `context(thread, user, count)`: the newest messages, the user's two documents and
their unfinished work, of one moment and in one round trip.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar, Protocol

from bench.conversations import LAST, Change, Message, Turn


class Blocking(Protocol):
    name: ClassVar[str]
    layout: ClassVar[str]  # "raw" or "stateward": which filled file it opens
    colour: ClassVar[str]  # "sync"

    def __init__(self, path: str) -> None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def append(self, thread: str, user: str, turn: Turn) -> Any: ...
    def last(self, thread: str, user: str, count: int) -> list[Message]: ...
    def get(self, user: str) -> dict[str, Any]: ...
    def update(self, user: str, change: Change) -> Any: ...

    def turn(self, thread: str, user: str, turn: Turn) -> None:
        """What an agent does: read what was said, then write what was said next."""
        self.last(thread, user, LAST)
        self.append(thread, user, turn)


class Awaited(Protocol):
    name: ClassVar[str]
    layout: ClassVar[str]
    colour: ClassVar[str]  # "async"

    def __init__(self, path: str) -> None: ...
    def open(self) -> Awaitable[None]: ...
    def close(self) -> Awaitable[None]: ...
    def append(self, thread: str, user: str, turn: Turn) -> Awaitable[Any]: ...
    def last(self, thread: str, user: str, count: int) -> Awaitable[list[Message]]: ...
    def get(self, user: str) -> Awaitable[dict[str, Any]]: ...
    def update(self, user: str, change: Change) -> Awaitable[Any]: ...

    async def turn(self, thread: str, user: str, turn: Turn) -> None:
        """What an agent does: read what was said, then write what was said next."""
        await self.last(thread, user, LAST)
        await self.append(thread, user, turn)
