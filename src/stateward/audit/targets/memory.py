"""A memory: the handful of methods through which a replica uses what is audited.

It is an object, made in each replica process, with as many of these methods as it has; each may be
async or plain. What it lacks is `absent` in the report.

    append(thread, messages, key)         store messages, all or none; the same key twice is once
    load(thread, last)                    the messages, oldest first; the last so many unless None
    get_user(user)                        a dict, or (dict, version)
    put_user(user, value)                 with `expect=version` if `versions` is provided
    update_user(user, change)             change is a function of the dict
    run_once(task, function)              the result of an async function, run once by all replicas
    run_workflow(id, steps)               (name, async function) each; finished ones never again
    lock(thread, ttl)                     an async context manager that gives a token;
                                          then append(…, fence=token) is refused to a former holder
    effect_key()                          within such a function: the key under which another system
                                          knows this act, the same at every try in every replica
    context(thread, last)                 what the model is given: at most so many messages, besides
                                          the system messages that the conversation begins with
    erase(user, threads)                  remove this user and these conversations for good
    traces(text)                          names of the files, tables or keys that still have it
    backup(folder)                        write a copy of the namespace into this folder
    restore(folder)                       put that copy into a new namespace, which is this one's
    open(), close(), clean()              begin, end, remove all that was written

Errors that say "the store does not answer" are named by `unavailable`, a tuple of exceptions.
`keys = False` says that a turn which is delivered twice is stored twice: then that is `absent`, and
no other question fails by it. `retain` says for how many seconds a conversation is kept after its
last turn, if it is not for ever: then that is tried, too.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Self

from stateward.errors import InvalidInput

Json = dict[str, Any]
NamedSteps = Sequence[tuple[str, Callable[[], Any]]]

PARTS = {
    "threads": ("append", "load"),
    "keys": (),  # with threads, unless the memory says that it has none
    "users": ("get_user", "put_user", "update_user"),
    "versions": (),  # put_user takes expect=, get_user tells the version
    "tasks": ("run_once",),
    "workflows": ("run_workflow",),
    "locks": ("lock",),
    "fences": (),  # with locks, if append takes fence=
    "retention": (),  # if `retain` says for how long
    "effects": (),  # with tasks, if there is effect_key
    "context": (),  # with threads, if there is such a method; and so the following two
    "erasure": (),
    "traces": (),
    "metrics": ("metrics",),
    "alarm": ("alarms",),
    "sizes": ("describe",),
    "backup": (),
}
UNAVAILABLE: tuple[type[BaseException], ...] = (OSError, TimeoutError)


class VersionConflict(Exception):
    """Raised by `put_user` of a memory if the document is not at `expect` any more."""

    def __init__(self, message: str, expected: Any = None, current: Any = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.current = current


class Refused(Exception):
    """Raised by `append` for a token that is no longer the holder's."""


class KeptLocally(str):
    """Returned by `append` if the messages are kept locally until the store answers."""


class Stopwatch:
    """Time of the call in a block: from when its method begins, in its thread if it is plain.

    A wait for one of the audit's own threads is not the memory's.
    """

    def __init__(self) -> None:
        self.began: float | None = None  # None: no thread was free for it
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._token = _stopwatch.set(self)
        return self

    def __exit__(self, *raised: object) -> None:
        _stopwatch.reset(self._token)
        self.seconds = 0.0 if self.began is None else time.monotonic() - self.began

    def begin(self) -> None:
        if self.began is None:
            self.began = time.monotonic()


_stopwatch: ContextVar[Stopwatch] = ContextVar("stopwatch", default=Stopwatch())  # noqa: B039 (no one reads that one)


class Memory:
    """Adapter for any object as a memory: detects its methods, and runs plain ones on threads."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.unavailable = tuple(getattr(inner, "unavailable", UNAVAILABLE))

    @property
    def provides(self) -> list[str]:
        declared = getattr(self.inner, "provides", None)
        if declared is not None:
            unknown = sorted(set(declared) - PARTS.keys())
            if unknown:
                raise InvalidInput(
                    f"the target provides {', '.join(unknown)}, which is not a part; "
                    f"the parts are: {', '.join(PARTS)}"
                )
        parts = [
            part
            for part, methods in PARTS.items()
            if (part in declared if declared is not None else bool(methods))
            and all(hasattr(self.inner, method) for method in methods)
        ]
        implied = {
            "keys": "threads" in parts and getattr(self.inner, "keys", True) is not False,
            "fences": "locks" in parts and "threads" in parts and self._takes_fences(),
            "retention": isinstance(getattr(self.inner, "retain", None), int | float),
            "effects": "tasks" in parts and hasattr(self.inner, "effect_key"),
            "context": "threads" in parts and hasattr(self.inner, "context"),
            "erasure": "threads" in parts and hasattr(self.inner, "erase"),
            "traces": "threads" in parts and hasattr(self.inner, "traces"),
        }
        return [part for part in PARTS if implied.get(part, part in parts)]

    def _takes_fences(self) -> bool:
        parameters = inspect.signature(self.inner.append).parameters
        return "fence" in parameters or any(
            each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()
        )

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        method: Callable[..., Any] | None = getattr(self.inner, name, None)
        if method is None:
            return None
        watch = _stopwatch.get()
        if inspect.iscoroutinefunction(method):
            watch.begin()
            return await method(*args, **options)

        def carry_out() -> Any:
            watch.begin()
            return method(*args, **options)

        answer = await asyncio.to_thread(carry_out)
        return await answer if inspect.isawaitable(answer) else answer

    async def do(self, name: str, *args: Any) -> Any:
        """Carry out a conductor's request: by the method below of this name, if any."""
        return await getattr(self, name, partial(self.call, name))(*args)

    async def append(self, thread: str, messages: list[Json], key: str) -> str:
        """Append; return "stored", or "kept" if the memory promises to store them later."""
        said = await self.call("append", thread, messages, key)
        return "kept" if isinstance(said, KeptLocally) else "stored"

    async def append_fenced(self, thread: str, messages: list[Json], key: str, token: Any) -> None:
        await self.call("append", thread, messages, key, fence=token)

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        """Yield the token of the lock, which may be a plain context manager, too."""
        lock = self.inner.lock(thread, ttl)
        if inspect.isawaitable(lock):
            lock = await lock
        if hasattr(lock, "__aenter__"):
            async with lock as token:
                yield token
            return
        token = await asyncio.to_thread(lock.__enter__)
        try:
            yield token
        finally:
            await asyncio.to_thread(lock.__exit__, None, None, None)

    async def load(self, thread: str, last: int | None = None) -> list[Json]:
        return list(await self.call("load", thread, last))

    async def get_user(self, user: str) -> tuple[Json, int | None]:
        said = await self.call("get_user", user)
        if isinstance(said, tuple):
            return said[0], said[1]
        return said or {}, None

    async def put_user(self, user: str, value: Json, expect: int | None = None) -> int | None:
        if expect is None:
            version = await self.call("put_user", user, value)
        else:
            version = await self.call("put_user", user, value, expect=expect)
        return version if isinstance(version, int) else None
