"""Stateward's own stores as targets, through their public API."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from glob import escape, glob
from typing import Any, Self
from urllib.parse import quote

from msgspec.structs import replace

from stateward import (
    Alarm,
    AlarmEvent,
    LeaseLost,
    StateConflictError,
    Store,
    StoreUnavailable,
    idempotency_key,
)
from stateward.audit.faults.route import Route, store_route
from stateward.audit.profiles import AuditSizes
from stateward.audit.safety import headroom, isolation
from stateward.audit.safety.expiry import DAY, ExpiringEngine
from stateward.audit.targets import traces
from stateward.audit.targets.memory import Json, KeptLocally, NamedSteps, Refused, VersionConflict
from stateward.audit.targets.target import AuditTarget, BackupProcedure, FileStorage
from stateward.engine import Traces
from stateward.engines.registry import create_engine, parse
from stateward.engines.url import EngineURL
from stateward.observe.catalogue import LOOKUP_LATENCY
from stateward.transfer import backup
from stateward.world import World

CLEARING = 30.0  # seconds that a store is given to let itself be cleaned


class StoreMemory:
    """Memory in one store. All data it writes expires within a day, in case no one removes it."""

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

    def __init__(self, target: AuditTarget) -> None:
        self.alarmed: list[tuple[str, float]] = []
        self.kept: list[float] = []
        spill = os.path.join(target.folder, f"spill-{target.replica}")
        os.makedirs(spill, exist_ok=True)
        world, url = World(), parse(target.name)
        search = _search(url if target.url is None else parse(target.url))
        if search is not None:
            self.traces = partial(_traces, search, target.folder)
        self.store = Store(
            ExpiringEngine(create_engine(url, world)),
            namespace=target.namespace,
            retain=DAY,
            spill=spill,
            alarm=Alarm(hook=self._alarm),
            identity=url.identity,
            heartbeat=None,
            # A history that has an end looks like a leak for as long as an audit lasts, where the
            # server frees room only now and then, as PostgreSQL does.
            keep=0,
            world=world,
        )

    def _alarm(self, event: AlarmEvent) -> None:
        if event.raised:
            self.alarmed.append((event.name, time.monotonic()))

    async def open(self) -> None:
        await self.store.sections.ready()

    async def close(self) -> None:
        await self.store.close()

    async def append(self, thread: str, messages: list[Json], key: str, fence: Any = None) -> str:
        try:
            receipt = await self.store.thread(thread).append(*messages, key=key, fence=fence)
        except LeaseLost as error:
            raise Refused(str(error)) from error
        if receipt.status == "spilled":
            self.kept.append(time.monotonic())
            return KeptLocally(receipt.status)
        if receipt.status == "dropped":
            raise StoreUnavailable("the turn was dropped: there was no room to keep it")
        return receipt.status

    async def load(self, thread: str, last: int | None) -> list[Json]:
        return list((await self.store.thread(thread).load(last=last)).messages)

    async def get_user(self, user: str) -> tuple[Json, int]:
        document = await self.store.user(user).get()
        return document.value, document.version

    async def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        try:
            return (await self.store.user(user).put(value, expect=expect)).version
        except StateConflictError as error:
            raise VersionConflict(str(error), error.expected, error.current) from error

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        await self.store.user(user).update(change, within=20.0)

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await self.store.once(task, function, fingerprint="audit", ttl=3.0)

    async def run_workflow(self, id: str, steps: NamedSteps) -> Json:
        results: Json = {}
        async with self.store.workflow(id, kind="audit", ttl=2.0) as run:
            for name, function in steps:
                results[name] = await run.step(name, function)
        return results

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        # Not `lead`: that ends the block of a holder whose time is up, and would hide whether the
        # store itself refuses what such a holder writes.
        handle = self.store.thread(thread).handle
        leases = handle.scope.leases
        lease, asked = await leases.acquire(handle.entity, ttl=ttl, wait=20.0, retain=DAY)
        try:
            yield lease
        finally:
            await leases.release(leases.hold(handle.entity, lease, ttl, asked))

    async def effect_key(self) -> str:
        return idempotency_key()

    async def context(self, thread: str, last: int) -> list[Json]:
        return list((await self.store.thread(thread).load(last=last)).messages)

    async def erase(self, user: str, threads: list[str]) -> None:
        for thread in threads:
            await self.store.thread(thread).claim(user=user)
        await self.store.user(user).erase()

    async def metrics(self) -> Json:
        metrics = self.store.metrics()
        took = metrics.distribution(LOOKUP_LATENCY.name)
        return {
            "lookups": took.count,
            "percentiles": {"p50": took.p50, "p95": took.p95, "p99": took.p99},
        }

    async def alarms(self) -> Json:
        """Return the alarms that fired, with the seconds since the tenth spilled turn."""
        tenth = self.kept[9] if len(self.kept) > 9 else None
        fired = [
            {"name": name, "after": None if tenth is None else max(0.0, at - tenth)}
            for name, at in self.alarmed
        ]
        return {"kept": len(self.kept), "fired": fired}

    async def describe(self) -> Json:
        store = await self.store.describe()
        return {
            "engine": store.engine,
            "version": store.version,
            "durability": store.durability,
            "bytes": store.bytes,
            "capacity": store.capacity,
            "settings": dict(store.settings),
        }


def _search(url: EngineURL) -> Callable[[str], Awaitable[Sequence[str]]] | None:
    """Return a function that searches all of a store for a text; None where that is impossible."""
    file = isolation.file_of(url)
    if file is not None:

        async def in_its_files(text: str) -> list[str]:
            return traces.in_files(traces.beside(file), text)

        return in_its_files
    engine = create_engine(url, World())
    return engine.traces if isinstance(engine, Traces) else None


async def _traces(
    search: Callable[[str], Awaitable[Sequence[str]]], folder: str, text: str
) -> list[str]:
    """Return where the text is: in the store, and in turns that a replica keeps for later."""
    files = traces.below(*glob(os.path.join(escape(folder), "spill-*")))
    return [*await search(text), *traces.in_files(files, text)]


def file_url(path: str) -> str:
    """A store in this file."""
    return f"sqlite:///{quote(path)}"


class StoreTarget(AuditTarget, frozen=True):
    """A store's URL; a file in the audit's own folder without any."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        if named is None:
            named = file_url(os.path.join(folder, "agents.db"))
        if not named.partition(":")[2].startswith("//"):
            return None
        return cls(named, namespace, folder)

    def connect(self) -> StoreMemory:
        return StoreMemory(self)

    @property
    def title(self) -> str:
        return parse(isolation.named_by_user(self.name)).safe

    @property
    def files(self) -> FileStorage | None:
        path = isolation.file_of(parse(self.name))
        return None if path is None else FileStorage(path, own=isolation.is_apart(self.name))

    async def route(self) -> Route | str:
        return await store_route(self.name)

    @property
    def pool(self) -> int:
        return headroom.pool_of(self.name)

    def apart(self, own: bool, observing: bool) -> Self:
        url = isolation.apart(self.name, self.namespace, own=own, observing=observing)
        return replace(self, name=url, observed=observing)

    async def prepare(self) -> None:
        if not self.observed:
            await isolation.begin(self.name, self.namespace)

    async def fitted(self, sizes: AuditSizes) -> tuple[Self, AuditSizes]:
        if self.observed:
            return self, sizes
        sizes, url = await headroom.fitted(sizes, self.name)
        return replace(self, name=url), sizes

    @property
    def watched(self) -> str | None:
        return None if self.observed else self.name

    async def clear(self) -> str:
        if self.observed:
            return ""
        return await isolation.end_within(CLEARING, self.name, self.namespace)

    def backup(self) -> BackupProcedure:
        """Return a backup into a file, and from there into a new store."""
        file = os.path.join(self.folder, "drill.backup")
        restored = file_url(os.path.join(self.folder, "restored.db"))

        def save() -> str:
            return backup.backup(self.name, file, namespace=self.namespace).moment

        def put_back() -> Json:
            backup.restore(file, restored, namespace=self.namespace)
            return {"name": restored}

        return BackupProcedure(save, put_back)

    @property
    def told(self) -> dict[str, str]:
        schema, file = isolation.own_schema(self.name), isolation.file_of(parse(self.name))
        variables = {"STATEWARD_AUDIT_SCHEMA": schema, "STATEWARD_AUDIT_FILE": file}
        return super().told | {name: value for name, value in variables.items() if value}

    def restored_at(self, url: str) -> Json:
        """Return the URL of a restored copy, with the audit's schema unless it names another."""
        schema = isolation.own_schema(self.name)
        if schema and "schema" not in parse(url).options:
            url = isolation.with_options(url, schema=schema)
        return {"name": url}
