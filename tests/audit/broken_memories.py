"""Memories that are wrong in one way each: an audit that passes one of these is itself broken."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from broken_engines import Broken, DropsAcknowledged, IgnoresFences, ServesStale

import stateward
from stateward.audit.targets.naive import NaiveTarget, NaiveWire, RedisDocument
from stateward.audit.targets.store import StoreMemory, StoreTarget
from stateward.audit.targets.target import AuditTarget
from stateward.engines.registry import create_engine, parse
from stateward.world import World


def over(namespace: str, url: str, kind: type[Broken], one_in: int) -> StoreMemory:
    target = StoreMemory(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))
    engine = kind(create_engine(parse(url), World()), seed=time.time_ns(), one_in=one_in)
    target.store = stateward.Store(engine, namespace=namespace, spill=False)
    return target


class LosesOneInAThousand(DropsAcknowledged):
    """Not by chance: a test that fails in one run of many would be believed by nobody."""

    written = 500

    def _unlucky(self) -> bool:
        self.written += 1
        return self.written % 1000 == 0


def loses_writes(namespace: str, url: str) -> StoreMemory:
    return over(namespace, url, LosesOneInAThousand, 1000)


def serves_stale(namespace: str, url: str) -> StoreMemory:
    return over(namespace, url, ServesStale, 3)


def ignores_fences(namespace: str, url: str) -> StoreMemory:
    return over(namespace, url, IgnoresFences, 1)


class RunsTwice(StoreMemory):
    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await function()


def runs_tasks_twice(namespace: str, url: str) -> StoreMemory:
    return RunsTwice(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Slow(StoreMemory):
    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        await asyncio.sleep(0.15)
        return await super().load(thread, last)


def slow(namespace: str, url: str) -> StoreMemory:
    return Slow(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Stalling(StoreMemory):
    """Stands still for a second in every two; a caller that waits would hardly notice."""

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        part = time.monotonic() % 2.0
        if part > 1.0:
            await asyncio.sleep(2.0 - part)
        return await super().load(thread, last)


def stalling(namespace: str, url: str) -> StoreMemory:
    return Stalling(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Crowded(StoreMemory):
    """Two of three lookups fail once a process has many conversations, also one after the other."""

    def __init__(self, target: StoreTarget) -> None:
        super().__init__(target)
        self.seen: set[str] = set()
        self.lookups = 0

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        self.seen.add(thread)
        self.lookups += 1
        if len(self.seen) > 5 and self.lookups % 3:
            raise RuntimeError("too many conversations")
        return await super().load(thread, last)


def crowded(namespace: str, url: str) -> StoreMemory:
    return Crowded(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Unwatched(StoreMemory):
    provides = tuple(part for part in StoreMemory.provides if part not in ("metrics", "alarm"))


def unwatched(namespace: str, url: str) -> StoreMemory:
    return Unwatched(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Retries(RedisDocument):
    """Tries again what may have arrived, and says so by no key: an answer that is lost doubles it.

    One connection writes, so that the next answer on it is a write's.
    """

    provides = ("threads",)

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        self._writing = threading.Lock()
        self._writer: NaiveWire | None = None

    def append(self, thread: str, messages: list[dict[str, Any]], key: str) -> None:
        words = ("RPUSH", self._key("list", thread), *map(json.dumps, messages))
        with self._writing:
            try:
                self._write(*words)
            except OSError:
                self._writer = None
                self._write(*words)

    def _write(self, *words: str) -> None:
        if self._writer is None:
            self._writer = NaiveWire(self.target.url or "")
        self._writer.ask(*words)

    def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        found = self._ask("LRANGE", self._key("list", thread), "0", "-1")
        return [json.loads(each) for each in found]


def retries(namespace: str, url: str) -> Retries:
    return Retries(NaiveTarget("redis-document", namespace, "/", url=url))


# --- promises of which one is not kept ----------------------------------------------------


def kept_in(namespace: str, url: str, kind: type[StoreMemory]) -> StoreMemory:
    return kind(StoreTarget(url, namespace, url.removeprefix("sqlite:///") + ".d"))


class DropsNulls(StoreMemory):
    async def append(
        self, thread: str, messages: list[dict[str, Any]], key: str, fence: Any = None
    ) -> str:
        given = [{name: v for name, v in each.items() if v is not None} for each in messages]
        return await super().append(thread, given, key, fence)


def drops_nulls(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, DropsNulls)


class LosesTheNewest(StoreMemory):
    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        found = await super().load(thread, None)
        return found if last is None else found[-last - 1 : -1]


def loses_the_newest(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, LosesTheNewest)


class KeysOfAll(StoreMemory):
    """A key counts in whatever conversation it was used first."""

    async def append(
        self, thread: str, messages: list[dict[str, Any]], key: str, fence: Any = None
    ) -> str:
        used, _ = await self.get_user(f"stateward-audit-key-{key}"[:200])
        if used.get("thread", thread) != thread:
            return "stored"
        await self.put_user(f"stateward-audit-key-{key}"[:200], {"thread": thread})
        return await super().append(thread, messages, key, fence)


def keys_of_all(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, KeysOfAll)


class NoLock(StoreMemory):
    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        yield None


def no_lock(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, NoLock)


class StoresErrors(StoreMemory):
    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        async def caught() -> Any:
            try:
                return await function()
            except Exception as error:
                return {"error": str(error)}

        return await super().run_once(task, caught)


def stores_errors(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, StoresErrors)


class AcknowledgesEarly(StoreMemory):
    async def append(
        self, thread: str, messages: list[dict[str, Any]], key: str, fence: Any = None
    ) -> str:
        async def later() -> None:
            await asyncio.sleep(0.05)
            await StoreMemory.append(self, thread, messages, key, fence)

        self._later = getattr(self, "_later", set())
        self._later.add(asyncio.create_task(later()))
        return "stored"


def acknowledges_early(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, AcknowledgesEarly)


class SharesDefaults(StoreMemory):
    nobody: ClassVar[dict[str, Any]] = {}

    async def get_user(self, user: str) -> tuple[dict[str, Any], int]:
        value, version = await super().get_user(user)
        return value or self.nobody, version


def shares_defaults(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, SharesDefaults)


class ForgetsSoon(StoreMemory):
    """Tasks that are done are remembered for half a second."""

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await super().run_once(f"{task} {int(time.monotonic() * 2)}", function)


def forgets_soon(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, ForgetsSoon)


class OnlyOlder(StoreMemory):
    """Refuses a version that is too old, and takes one that never was."""

    async def put_user(self, user: str, value: Any, expect: int | None = None) -> int:
        _, current = await self.get_user(user)
        newer = expect is not None and expect > current
        return await super().put_user(user, value, current if newer else expect)


def only_older(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, OnlyOlder)


class RunsStepsAgain(StoreMemory):
    async def run_workflow(self, id: str, steps: Any) -> dict[str, Any]:
        return {name: await function() for name, function in steps}


def runs_steps_again(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, RunsStepsAgain)


class Merges(StoreMemory):
    async def put_user(self, user: str, value: Any, expect: int | None = None) -> int:
        found, _ = await self.get_user(user)
        return await super().put_user(user, {**found, **value}, expect)


def merges(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, Merges)


class ReadsAll(StoreMemory):
    """A lookup costs as much as the conversation is long."""

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        found = await super().load(thread, None)
        await asyncio.sleep(len(found) / 20_000)
        return found if last is None else found[-last:]


def reads_all(namespace: str, url: str) -> StoreMemory:
    return kept_in(namespace, url, ReadsAll)
