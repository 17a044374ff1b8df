"""What keeps an audit from harming the store it looks at."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import holdfast
from holdfast.engine import Engine
from holdfast.errors import InvalidInput
from holdfast.ops import Commit, Drop, Found, List, Listed
from holdfast.registry import EngineURL, create_engine, parse
from holdfast.world import World

REGISTRY = "holdfast-audit"  # the namespace in which audits that are under way are noted
PREFIX = "holdfast-audit-"
RUNS = "runs"
MEMORY = 0.8  # of maxmemory


async def note(url: str, namespace: str) -> None:
    """Say that an audit works in this namespace, so that `audit clean` finds it."""
    async with holdfast.open(url, namespace=REGISTRY, spill=False) as store:
        await store.shared(RUNS).update(lambda runs: {**runs, namespace: time.time()})


async def forget(url: str, namespace: str) -> None:
    """It has removed everything. When no other is under way, nothing is left of the note."""
    async with holdfast.open(url, namespace=REGISTRY, spill=False) as store:
        left = await store.shared(RUNS).update(
            lambda runs: {name: at for name, at in runs.items() if name != namespace}
        )
    if not left.value:
        await drop_all(url, REGISTRY)


async def refuse_used(url: str, namespace: str) -> None:
    """Raise if the namespace holds anything."""
    async with _engine(parse(url)) as engine:
        async for found in _everything(engine, namespace):
            raise InvalidInput(
                f"the namespace {namespace!r} holds data ({found.entity.kind} "
                f"{found.entity.id!r}): an audit works in a namespace of its own; leave "
                "--namespace out, or run holdfast audit clean"
            )


async def drop_all(url: str, namespace: str) -> int:
    """Remove all of a namespace; returns how many entities there were."""
    count, world = 0, World()
    async with _engine(parse(url)) as engine:
        async for found in _everything(engine, namespace):
            await engine.execute((Commit(found.entity, world.new_id(), (Drop(),)),))
            count += 1
    return count


async def clean(url: str) -> dict[str, int]:
    """Remove what killed audits have left: entities by namespace."""
    async with holdfast.open(url, namespace=REGISTRY, spill=False) as store:
        runs = (await store.shared(RUNS).get()).value
    cleaned = {name: await drop_all(url, name) for name in runs if name.startswith(PREFIX)}
    if runs:
        await drop_all(url, REGISTRY)
    return cleaned


def refuse_full(said: dict[str, Any]) -> None:
    """Raise if the store has so little memory left that a load could do harm."""
    settings = said.get("settings", {})
    most, used = int(settings.get("maxmemory", 0)), int(settings.get("used_memory", 0))
    if most and used > MEMORY * most:
        raise InvalidInput(
            f"the server uses {used / most:.0%} of its maxmemory: an audit does not load one that "
            f"is over {MEMORY:.0%}; --observe reads its settings and writes nothing"
        )


async def _everything(engine: Engine, namespace: str) -> AsyncIterator[Found]:
    after: str | None = None
    while True:
        listed = (await engine.execute((List(namespace, after=after),)))[0]
        assert isinstance(listed, Listed)
        for found in listed.entities:
            yield found
        if listed.next is None:
            return
        after = listed.next


@contextlib.asynccontextmanager
async def _engine(url: EngineURL) -> AsyncIterator[Engine]:
    engine: Engine = create_engine(url, World())
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def file_of(url: EngineURL) -> str | None:
    """The path of a store that is a file; None for a server or memory."""
    capabilities = create_engine(url, World()).capabilities
    if capabilities.networked or not capabilities.durable:
        return None
    return os.path.abspath(url.rest.removeprefix("/"))
