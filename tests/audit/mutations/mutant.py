"""A mutant: a sound memory of which one promise is broken.

What breaks it is a function for each method that it touches. Such a function is given the sound
memory and the arguments of the call, and does what the broken memory does:

    async def without_last(sound, thread, messages, key, **more):
        return await sound.append(thread, messages[:-1], key, **more)

    Mutant("append.drop_last", "…", ("sessions",), {"append": without_last})

It builds on the sound memory's own methods, so the same mutant runs on every store. What can only
be broken within one is `inside`: a function that is given the memory itself before it is opened.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
Messages = list[Json]
Around = Callable[..., Any]  # (sound, *args, **options)
Condition = Callable[["Sound", str, tuple[Any, ...]], Awaitable[bool]]

METHODS = (
    "open",
    "close",
    "clean",
    "append",
    "load",
    "get_user",
    "put_user",
    "update_user",
    "run_once",
    "run_workflow",
    "metrics",
    "alarms",
    "describe",
    "effect_key",
    "context",
    "erase",
    "traces",
    "backup",
    "restore",
)
WRITES = ("append", "put_user", "update_user")
OWN = "mutant:"  # begins the ids of what a mutant keeps for itself


class Mutant(Struct, frozen=True):
    """One broken promise. `says` is what a user would notice, in one sentence."""

    id: str  # stable: "append.truncate@200"
    says: str
    caught_by: tuple[str, ...]  # topics: `topics.QUESTIONS` says which questions have them
    around: Mapping[str, Around] = {}
    inside: Callable[[Any], None] | None = None
    when: Condition | None = None  # it is sound otherwise
    base: str = "sqlite"  # or "redis", "postgres", "store-redis", "store-sqlite"
    options: Mapping[str, Any] = {}  # of the audit: how it is backed up
    least: str = "fail"  # the mildest verdict that counts as caught
    found: str = ""  # what the finding must say, where a sound memory has the same verdict

    @property
    def operator(self) -> str:
        return self.id.partition("@")[0]


class Sound:
    """The sound memory as async methods, and room for what a mutant remembers."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.unavailable: tuple[type[BaseException], ...] = tuple(inner.unavailable)
        self.kept: dict[Any, Any] = {}  # in this process alone
        self.written: set[Any] = set()  # ids that this process has written
        self.failed = False  # whether the store has not answered at some time
        self.number = 0  # of this process, from 1
        self.began = time.monotonic()

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        method = getattr(self.inner, name, None)
        if method is None:
            return None
        try:
            if inspect.iscoroutinefunction(method):
                return await method(*args, **options)
            return await asyncio.to_thread(method, *args, **options)
        except self.unavailable:
            self.failed = True
            raise
        finally:
            if name in WRITES:
                self.written.add(args[0])

    def __getattr__(self, name: str) -> Any:
        if name == "lock":
            return self.inner.lock

        async def method(*args: Any, **options: Any) -> Any:
            return await self.call(name, *args, **options)

        return method

    # --- what a mutant remembers, for all processes ---------------------------------

    async def remembered(self, name: str) -> Json:
        value, _ = await self.call("get_user", OWN + name)
        found: Json = value
        return found

    async def remember(self, name: str, value: Json) -> None:
        await self.call("put_user", OWN + name, value)

    async def change(self, name: str, change: Callable[[Json], Any]) -> Any:
        """Atomically; gives what `change` returned, which changes its argument in place."""
        said: list[Any] = []

        def changed(value: Json) -> Json:
            said.append(change(value))
            return value

        await self.call("update_user", OWN + name, changed)
        return said[-1]

    async def length(self, thread: str) -> int:
        return len(await self.call("load", thread, None))


class Mutated:
    """The memory that is audited."""

    def __init__(self, inner: Any, mutant: Mutant) -> None:
        self.mutant = mutant
        if mutant.inside is not None:
            mutant.inside(inner)
        self.provides = tuple(inner.provides)
        self.sound = Sound(inner)
        self.unavailable = (*self.sound.unavailable, Broken)
        for name in ("keys", "retain"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        if hasattr(inner, "lock"):
            self.lock = self._lock

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        sound, around = self.sound, self.mutant.around.get(name)
        if around is None and not hasattr(sound.inner, name):
            raise AttributeError(name)

        async def method(*args: Any, **options: Any) -> Any:
            if around is None or not await self._is_broken(name, args):
                return await sound.call(name, *args, **options)
            said = around(sound, *args, **options)
            return await said if inspect.isawaitable(said) else said

        return method

    async def open(self) -> None:
        await self.sound.call("open")
        if self.mutant.when is not None:
            self.sound.number = await self.sound.change("processes", counted)

    async def _is_broken(self, name: str, args: tuple[Any, ...]) -> bool:
        return self.mutant.when is None or await self.mutant.when(self.sound, name, args)

    @asynccontextmanager
    async def _lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        around = self.mutant.around.get("lock")
        broken = around is not None and await self._is_broken("lock", (thread, ttl))
        lock = around(self.sound, thread, ttl) if broken and around else None
        async with lock or self.sound.inner.lock(thread, ttl) as token:
            yield token


def counted(value: Json) -> int:
    """One more, of a document that counts."""
    value["count"] = value.get("count", 0) + 1
    return int(value["count"])


def fresh() -> str:
    """A key that nobody has used."""
    return uuid.uuid4().hex


def tail(found: Messages, last: int) -> Messages:
    """The last so many."""
    return found[max(0, len(found) - last) :]


Row = tuple[str, str, tuple[str, ...], Mapping[str, Around], Condition | None]


def mutants(*rows: Row) -> list[Mutant]:
    """From a table: id, what a user would notice, topics, what is broken, and when."""
    return [Mutant(id, says, by, around, when=when) for id, says, by, around, when in rows]


class Broken(OSError):
    """What a broken memory raises that says that its store does not answer."""
