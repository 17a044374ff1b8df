"""Stateward's own stores as targets, through their public API."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from stateward import Alarm, AlarmEvent, LeaseLost, StateConflictError, Store, StoreUnavailable
from stateward.audit.safety.expiring import DAY, Expiring
from stateward.audit.targets import KeptLocally, Refused, TargetAddress, VersionConflict
from stateward.engines.registry import create_engine, parse
from stateward.observe.catalogue import LOOKUP_LATENCY
from stateward.volumes.route import route
from stateward.world import World

Step = tuple[str, Callable[[], Any]]


class StoreTarget:
    """One store. Everything it writes expires within a day, should nobody remove it."""

    provides = (
        "threads",
        "users",
        "versions",
        "tasks",
        "workflows",
        "locks",
        "metrics",
        "alarm",
        "sizes",
        "backup",
    )
    unavailable = (StoreUnavailable,)

    def __init__(self, place: TargetAddress) -> None:
        self.alarmed: list[tuple[str, float]] = []
        self.kept: list[float] = []
        spill = os.path.join(place.folder, f"spill-{place.replica}")
        os.makedirs(spill, exist_ok=True)
        world, url = World(), parse(place.name)
        self.store = Store(
            Expiring(create_engine(url, world)),
            namespace=place.namespace,
            retain=DAY,
            spill=spill,
            alarm=Alarm(hook=self._alarm),
            identity=url.identity,
            world=world,
        )

    def _alarm(self, event: AlarmEvent) -> None:
        if event.raised:
            self.alarmed.append((event.name, time.monotonic()))

    async def open(self) -> None:
        await self.store.__aenter__()

    async def close(self) -> None:
        await self.store.close()

    async def append(
        self, thread: str, messages: list[dict[str, Any]], key: str, fence: Any = None
    ) -> str:
        try:
            said = await self.store.thread(thread).append(*messages, key=key, fence=fence)
        except LeaseLost as error:
            raise Refused(str(error)) from error
        if said.status == "spilled":
            self.kept.append(time.monotonic())
            return KeptLocally(said.status)
        if said.status == "dropped":
            raise StoreUnavailable("the turn was dropped: there was no room to keep it")
        return said.status

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        return list((await self.store.thread(thread).load(last=last)).messages)

    async def get_user(self, user: str) -> tuple[dict[str, Any], int]:
        document = await self.store.user(user).get()
        return document.value, document.version

    async def put_user(self, user: str, value: dict[str, Any], expect: int | None = None) -> int:
        try:
            return (await self.store.user(user).put(value, expect=expect)).version
        except StateConflictError as error:
            raise VersionConflict(str(error), error.expected, error.current) from error

    async def update_user(self, user: str, change: Callable[[dict[str, Any]], Any]) -> None:
        await self.store.user(user).update(change, within=20.0)

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await self.store.once(task, function, fingerprint="audit", ttl=10.0)

    async def run_workflow(self, id: str, steps: Sequence[Step]) -> None:
        async with self.store.workflow(id, kind="audit", ttl=2.0) as run:
            for name, function in steps:
                await run.step(name, function)

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        # Not `lead`: that ends the block of a holder whose time is up, and would hide whether the
        # store itself refuses what such a holder writes.
        led = self.store.thread(thread)
        handle = led.handle
        leases = handle.scope.leases
        lease, _ = await leases.acquire(handle.entity, ttl=ttl, wait=20.0, retain=DAY)
        yield lease

    async def metrics(self) -> dict[str, Any]:
        metrics = self.store.metrics()
        took = metrics.distribution(LOOKUP_LATENCY.name)
        return {
            "lookups": took.count,
            "percentiles": {"p50": took.p50, "p95": took.p95, "p99": took.p99},
        }

    async def alarms(self) -> dict[str, Any]:
        """Those that came, with the seconds since the tenth turn that was kept."""
        tenth = self.kept[9] if len(self.kept) > 9 else None
        fired = [
            {"name": name, "after": None if tenth is None else max(0.0, at - tenth)}
            for name, at in self.alarmed
        ]
        return {"kept": len(self.kept), "fired": fired}

    async def describe(self) -> dict[str, Any]:
        said = await self.store.describe()
        return {
            "engine": said.engine,
            "version": said.version,
            "durability": said.durability,
            "bytes": said.bytes,
            "capacity": said.capacity,
            "settings": dict(said.settings),
        }


class Division:
    """As many stores as there are replicas, each conversation and user in the one it routes to."""

    provides = StoreTarget.provides
    unavailable = (StoreUnavailable,)

    def __init__(self, place: TargetAddress) -> None:
        names = [f"agents-{number}" for number in range(int(place.name))]
        self._parts = {
            name: StoreTarget(
                TargetAddress(
                    "store",
                    f"sqlite:///{quote(os.path.join(place.folder, name))}.db",
                    place.namespace,
                    place.folder,
                    place.replica,
                )
            )
            for name in names
        }

    def _of(self, id: str) -> StoreTarget:
        return self._parts[route(id, self._parts)]

    async def open(self) -> None:
        await asyncio.gather(*(part.open() for part in self._parts.values()))

    async def close(self) -> None:
        await asyncio.gather(*(part.close() for part in self._parts.values()))

    async def append(
        self, thread: str, messages: list[dict[str, Any]], key: str, fence: Any = None
    ) -> str:
        return await self._of(thread).append(thread, messages, key, fence)

    async def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        return await self._of(thread).load(thread, last)

    async def get_user(self, user: str) -> tuple[dict[str, Any], int]:
        return await self._of(user).get_user(user)

    async def put_user(self, user: str, value: dict[str, Any], expect: int | None = None) -> int:
        return await self._of(user).put_user(user, value, expect)

    async def update_user(self, user: str, change: Callable[[dict[str, Any]], Any]) -> None:
        await self._of(user).update_user(user, change)

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await self._of(task).run_once(task, function)

    async def run_workflow(self, id: str, steps: Sequence[Step]) -> None:
        await self._of(id).run_workflow(id, steps)

    def lock(self, thread: str, ttl: float) -> Any:
        return self._of(thread).lock(thread, ttl)

    async def metrics(self) -> dict[str, Any]:
        said = [await part.metrics() for part in self._parts.values()]
        return max(said, key=lambda each: each["lookups"])

    async def alarms(self) -> dict[str, Any]:
        said = [await part.alarms() for part in self._parts.values()]
        return max(said, key=lambda each: each["kept"])

    async def describe(self) -> dict[str, Any]:
        said = [await part.describe() for part in self._parts.values()]
        return {**said[0], "bytes": sum(each["bytes"] for each in said)}
