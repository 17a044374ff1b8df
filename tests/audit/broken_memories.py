"""Memories that are wrong in one way each: an audit that passes one of these is itself broken."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import stateward
from stateward.audit.targets import TargetAddress
from stateward.audit.targets.naive import NaiveWire, RedisDocument
from stateward.audit.targets.store import StoreTarget
from stateward.engines.registry import create_engine, parse
from stateward.testing.broken import Broken, DropsAcknowledged, IgnoresFences, ServesStale
from stateward.world import World


def over(namespace: str, url: str, kind: type[Broken], one_in: int) -> StoreTarget:
    target = StoreTarget(
        TargetAddress("store", url, namespace, url.removeprefix("sqlite:///") + ".d")
    )
    engine = kind(create_engine(parse(url), World()), seed=time.time_ns(), one_in=one_in)
    target.store = stateward.Store(engine, namespace=namespace, spill=False)
    return target


class LosesOneInAThousand(DropsAcknowledged):
    """Not by chance: a test that fails in one run of many would be believed by nobody."""

    written = 500

    def _unlucky(self) -> bool:
        self.written += 1
        return self.written % 1000 == 0


def loses_writes(namespace: str, url: str) -> StoreTarget:
    return over(namespace, url, LosesOneInAThousand, 1000)


def serves_stale(namespace: str, url: str) -> StoreTarget:
    return over(namespace, url, ServesStale, 3)


def ignores_fences(namespace: str, url: str) -> StoreTarget:
    return over(namespace, url, IgnoresFences, 1)


class RunsTwice(StoreTarget):
    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await function()


def runs_tasks_twice(namespace: str, url: str) -> StoreTarget:
    return RunsTwice(TargetAddress("store", url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Slow(StoreTarget):
    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        await asyncio.sleep(0.15)
        return await super().load(thread, last)


def slow(namespace: str, url: str) -> StoreTarget:
    return Slow(TargetAddress("store", url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Stalling(StoreTarget):
    """Stands still for a second in every two; a caller that waits would hardly notice."""

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        part = time.monotonic() % 2.0
        if part > 1.0:
            await asyncio.sleep(2.0 - part)
        return await super().load(thread, last)


def stalling(namespace: str, url: str) -> StoreTarget:
    return Stalling(TargetAddress("store", url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Unwatched(StoreTarget):
    provides = tuple(part for part in StoreTarget.provides if part not in ("metrics", "alarm"))


def unwatched(namespace: str, url: str) -> StoreTarget:
    return Unwatched(TargetAddress("store", url, namespace, url.removeprefix("sqlite:///") + ".d"))


class Retries(RedisDocument):
    """Tries again what may have arrived, and says so by no key: an answer that is lost doubles it.

    One connection writes, so that the next answer on it is a write's.
    """

    provides = ("threads",)

    def __init__(self, place: TargetAddress) -> None:
        super().__init__(place)
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
            self._writer = NaiveWire(self.place.url or "")
        self._writer.ask(*words)

    def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        found = self._ask("LRANGE", self._key("list", thread), "0", "-1")
        return [json.loads(each) for each in found]


def retries(namespace: str, url: str) -> Retries:
    return Retries(TargetAddress("naive", "redis-document", namespace, "/", url=url))
