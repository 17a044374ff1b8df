"""Memories that are wrong in one way each: an audit that passes one of these is itself broken."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

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
