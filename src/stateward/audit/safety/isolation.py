"""A part of the store for the audit alone: what it writes stays there, and all of it is removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from typing import cast
from urllib.parse import urlencode

from stateward import Store
from stateward.audit.safety.expiry import DAY, ExpiringEngine
from stateward.engine import Capabilities, Engine, Purges, Schemas
from stateward.engines.registry import create_engine, parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, SchemaError, StoreUnavailable
from stateward.ops import Commit, Drop, Found, List, Listed
from stateward.world import World

REGISTRY = "stateward-audit"  # the namespace in which audits that are under way are noted
PREFIX = "stateward-audit-"
SCHEMA = "stateward_audit_"
NOTE = "a stateward audit works here; stateward audit clean removes what a killed one left"
RUNS = "runs"
NOTED = 7 * DAY


# --- a part of its own ------------------------------------------------------------------


def apart(url: str, namespace: str, *, own: bool, observing: bool) -> str:
    """The URL with a schema of the audit's own, where the store can have several.

    Not for a namespace that the user named (`own` is False) and not while only looking: no
    table of the store that is there is touched then, so nothing of it is migrated either.
    """
    if not capabilities(url).schemas:
        return url
    if own and not observing:
        return with_options(url, schema=SCHEMA + namespace.rpartition("-")[2])
    return url if "migrate" in parse(url).options else with_options(url, migrate="off")


def is_apart(url: str) -> bool:
    """Whether the URL names a schema of an audit's own."""
    return parse(url).options.get("schema", "").startswith(SCHEMA)


def with_options(url: str, **options: str) -> str:
    """The URL with these options, whatever it said of them."""
    base = url.partition("?")[0]
    return f"{base}?{urlencode(parse(url).options | options)}"


def capabilities(url: str) -> Capabilities:
    """What its engine can do."""
    engine: Engine = create_engine(parse(url), World())
    return engine.capabilities


async def begin(url: str, namespace: str) -> None:
    """Make a schema of its own, or say in the store that an audit works in this namespace."""
    if is_apart(url):
        schemas = cast(Schemas, create_engine(parse(url), World()))
        try:
            await schemas.create_schema(NOTE)
        except SchemaError as error:
            raise InvalidInput(
                f"the audit works in a schema of its own and cannot make one: {error.__cause__}. "
                "GRANT CREATE ON DATABASE to this role, or name an empty namespace of the store "
                "with --namespace"
            ) from error
        return
    await refuse_used(url, namespace)
    await note(url, namespace)


async def end(url: str, namespace: str) -> None:
    """Remove all of it; again is fine."""
    if is_apart(url):
        await cast(Schemas, create_engine(parse(url), World())).drop_schema(NOTE)
        return
    await remove_all(url, namespace)
    await forget(url, namespace)


async def end_within(seconds: float, url: str, namespace: str) -> str:
    """Remove all of it from a store that may not answer just now; what is left, or nothing."""
    until = time.monotonic() + seconds
    while True:
        try:
            await end(url, namespace)
            return ""
        except StoreUnavailable as error:
            if time.monotonic() > until:
                return (
                    f"what it wrote could not be removed ({error}); when the store answers "
                    f"again, run: stateward audit clean {parse(url).safe}"
                )
            await asyncio.sleep(0.25)


async def note(url: str, namespace: str) -> None:
    """Say that an audit works in this namespace, so that `audit clean` finds it."""
    async with _registry(url) as store:
        await store.shared(RUNS).update(lambda runs: {**runs, namespace: time.time()})


async def forget(url: str, namespace: str) -> None:
    """It has removed everything. When no other is under way, nothing is left of the note."""
    async with _registry(url) as store:
        left = await store.shared(RUNS).update(
            lambda runs: {name: at for name, at in runs.items() if name != namespace}
        )
    if not left.value:
        await remove_all(url, REGISTRY)


async def refuse_used(url: str, namespace: str) -> None:
    """Raise if the namespace holds anything."""
    async with opened(url) as engine:
        async for found in _everything(engine, namespace):
            raise InvalidInput(
                f"the namespace {namespace!r} holds data ({found.entity.kind} "
                f"{found.entity.id!r}): an audit works in a namespace of its own; leave "
                "--namespace out, or run stateward audit clean"
            )


async def remove_all(url: str, namespace: str) -> int:
    """Remove all of a namespace, without marks where the engine can; how many entities."""
    async with opened(url) as engine:
        if engine.capabilities.purges:
            return await cast(Purges, engine).purge(namespace)
        count, world = 0, World()
        async for found in _everything(engine, namespace):
            await engine.execute((Commit(found.entity, world.new_id(), (Drop(),)),))
            count += 1
        return count


async def clean(url: str) -> list[str]:
    """Remove what killed audits have left; what that was, in words."""
    if _is_missing(url):
        return []
    cleaned: list[str] = []
    if capabilities(url).schemas:
        schemas = cast(Schemas, create_engine(parse(url), World()))
        for name in await schemas.marked_schemas(NOTE):
            if name.startswith(SCHEMA):
                await end(with_options(url, schema=name), "")
                cleaned.append(f"schema {name}: removed")
        url = with_options(url, migrate="off")
    try:
        async with _registry(url) as store:
            runs = (await store.shared(RUNS).get()).value
    except SchemaError:
        return cleaned  # there is no store here that an audit could have worked in
    for name in runs:
        if name.startswith(PREFIX):
            cleaned.append(f"{name}: {await remove_all(url, name)} removed")
        else:
            cleaned.append(f"{name}: named by a user, so left as it is; it expires within a day")
    if runs:
        await remove_all(url, REGISTRY)
    return cleaned


def _is_missing(url: str) -> bool:
    path = file_of(parse(url))
    return path is not None and not os.path.exists(path)


# --- stores and engines -----------------------------------------------------------------


@contextlib.asynccontextmanager
async def _registry(url: str) -> AsyncIterator[Store]:
    engine = ExpiringEngine(create_engine(parse(url), World()), NOTED)
    async with Store(engine, namespace=REGISTRY, spill=False) as store:
        yield store


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
async def opened(url: str) -> AsyncIterator[Engine]:
    """Its engine, without any layer."""
    engine: Engine = create_engine(parse(url), World())
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def file_of(url: EngineURL) -> str | None:
    """The path of a store that is a file; None for a server or memory."""
    found = create_engine(url, World()).capabilities
    if found.networked or not found.durable:
        return None
    return os.path.abspath(url.rest.removeprefix("/"))


def remove_file(path: str) -> None:
    """A file of SQLite that was not there before, with those that it keeps beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(f"{path}{end}"):
            os.remove(f"{path}{end}")
