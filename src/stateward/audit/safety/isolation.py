"""A part of the store for the audit alone: what it writes stays there, and all of it is removed.

Where a store can be several, the part is one that no one else knows of: a schema of PostgreSQL, or
a file beside the one that was named. Elsewhere it is a namespace. Of a namespace that the user
named nothing is removed but what has an id of an audit's own: others may have begun to use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import time
from collections.abc import AsyncIterator
from typing import Self, cast
from uuid import uuid4

from stateward.audit.safety.expiry import DAY
from stateward.engine import Capabilities, Engine, Purges, Schemas
from stateward.engines.registry import create_engine, looking, parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, SchemaError, StoreUnavailable
from stateward.ops import Acquire, Commit, Drop, Entity, Found, Held, List, Listed
from stateward.world import World

REGISTRY = "stateward-audit"  # the namespace that lists audits in progress
PREFIX = "stateward-audit-"  # of an audit's own namespaces and files, and of the ids it writes
SCHEMA = "stateward_audit_"
NOTE = "a stateward audit works here; stateward audit clean removes what a killed one left"
WHOLE = "whole"  # the id of the note in a store that is the audit's own
NOTED = 7 * DAY
PRESENT = 15.0  # seconds that a note tells of someone at work, unless it is renewed
UNDER_WAY = "in progress, so left alone"
BESIDE = ("-wal", "-shm", "-journal")  # suffixes of the files that SQLite keeps beside a file


# --- a part of its own ------------------------------------------------------------------


def apart(url: str, namespace: str, *, own: bool, observing: bool) -> str:
    """The URL of a schema or file of the audit's own, where the store can have several.

    Not for a namespace that the user named (`own` is False) and not while only looking: the
    store that is there is used then, and neither made nor migrated.
    """
    if not own or observing:
        return looking(parse(url)).text
    if capabilities(url).schemas:
        return with_options(url, schema=SCHEMA + namespace.rpartition("-")[2], migrate="on")
    if file_of(parse(url)) is None:
        return url
    return with_options(_beside(url, f".{namespace}"), migrate="on")


def is_apart(url: str) -> bool:
    """Return True if the URL names a schema or a file of an audit's own."""
    return bool(own_schema(url)) or named_by_user(url) != url


def own_schema(url: str) -> str:
    """The schema of an audit's own that the URL names; "" if it names none."""
    schema = parse(url).options.get("schema", "")
    return schema if schema.startswith(SCHEMA) else ""


def named_by_user(url: str) -> str:
    """The URL without what names a file of an audit's own."""
    base, mark, query = url.partition("?")
    return f"{base.partition(f'.{PREFIX}')[0]}{mark}{query}"


def _beside(url: str, end: str) -> str:
    base, mark, query = url.partition("?")
    return f"{base}{end}{mark}{query}"


def with_options(url: str, **options: str) -> str:
    """The URL with these options, whatever it said of them."""
    return parse(url).with_options(**options).text


def capabilities(url: str) -> Capabilities:
    """Return the capabilities of a URL's engine."""
    engine: Engine = create_engine(parse(url), World())
    return engine.capabilities


async def begin(url: str, namespace: str) -> None:
    """Make its own schema, or see to it that no one uses the namespace."""
    if own_schema(url):
        schemas = cast(Schemas, create_engine(parse(url), World()))
        try:
            await schemas.create_schema(NOTE)
        except SchemaError as error:
            raise InvalidInput(
                f"the audit works in a separate schema and cannot create one: {error.__cause__}. "
                "GRANT CREATE ON DATABASE to this role, or name an empty namespace of the store "
                "with --namespace"
            ) from error
        return
    await refuse_used(url, namespace)


async def end(url: str, namespace: str) -> None:
    """Remove all of it; again is fine."""
    if own_schema(url):
        await cast(Schemas, create_engine(parse(url), World())).drop_schema(NOTE)
    elif is_apart(url):
        remove_file(file_of(parse(url)) or "")
    else:
        await _remove_written(url, namespace)
        await _forget(url, namespace)


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
                    f"again, run: stateward audit clean {parse(named_by_user(url)).safe}"
                )
            await asyncio.sleep(0.25)


# --- who is at work ---------------------------------------------------------------------


class Presence:
    """A note in the store that someone works in a namespace, renewed for as long as it lasts.

    `audit clean` finds by it what a killed audit has left, and leaves alone what is in progress.
    """

    def __init__(self, url: str, namespace: str) -> None:
        self._url = url
        self._namespace = namespace
        self._nonce = uuid4().hex
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> Self:
        """Raises `InvalidInput` if another audit works there."""
        if await self._note():
            raise InvalidInput(
                f"another audit works in the namespace {self._namespace!r}: name another one"
            )
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def end(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(PRESENT / 4)
            with contextlib.suppress(StoreUnavailable):  # the audit itself may have disturbed it
                await self._note()

    async def _note(self) -> float:
        return await _note(self._url, self._namespace, self._nonce)


async def _note(url: str, namespace: str, nonce: str) -> float:
    """Say that someone is at work; for how long someone else will be, or 0."""
    write = Acquire(nonce, PRESENT, "stateward audit")
    async with opened(url) as engine:
        commit = Commit(_entity(url, namespace), World().new_id(), (write,), retain=NOTED)
        (outcome,) = await engine.execute((commit,))
    return outcome.remaining if isinstance(outcome, Held) else 0.0


def _entity(url: str, namespace: str) -> Entity:
    return Entity(REGISTRY, "lock", WHOLE if is_apart(url) else namespace)


async def _is_left(url: str, namespace: str) -> bool:
    """Return True if no audit works there any more; a note that is still fresh is waited for."""
    nonce = uuid4().hex
    try:
        remaining = await _note(url, namespace, nonce)
        if remaining:
            await asyncio.sleep(remaining + 0.1)
            remaining = await _note(url, namespace, nonce)
    except SchemaError:
        return True  # the audit ended before it wrote anything
    return not remaining


async def _forget(url: str, namespace: str) -> None:
    """Remove the note of an audit that cleared its namespace, and all notes if it was the last."""
    noted = _entity(url, namespace)
    async with opened(url) as engine:
        others = [item async for item in _everything(engine, REGISTRY) if item.entity != noted]
        if others:
            await engine.execute((_drop(noted),))
    if not others:  # an audit that begins now writes its note again
        await remove_all(url, REGISTRY)


async def refuse_used(url: str, namespace: str) -> None:
    """Raise if the namespace holds anything."""
    async with opened(url) as engine:
        async for item in _everything(engine, namespace):
            raise InvalidInput(
                f"the namespace {namespace!r} holds data ({item.entity.kind} "
                f"{item.entity.id!r}): an audit works in a separate namespace; leave "
                "--namespace out, or run stateward audit clean"
            )


async def remove_all(url: str, namespace: str) -> int:
    """Remove all of a namespace, without marks where the engine can; how many entities."""
    async with opened(url) as engine:
        if engine.capabilities.purges:
            return await cast(Purges, engine).purge(namespace)
        count = 0
        async for item in _everything(engine, namespace):
            await engine.execute((_drop(item.entity),))
            count += 1
        return count


async def _remove_written(url: str, namespace: str) -> int:
    """Remove what an audit wrote; all there is, unless a user has named the namespace."""
    if namespace.startswith(PREFIX):
        return await remove_all(url, namespace)
    async with opened(url) as engine:
        ours = [
            item.entity
            async for item in _everything(engine, namespace)
            if item.entity.id.startswith(PREFIX)
        ]
        for entity in ours:
            await engine.execute((_drop(entity),))
    return len(ours)


def _drop(entity: Entity) -> Commit:
    return Commit(entity, World().new_id(), (Drop(),))


# --- after one that was killed ----------------------------------------------------------


async def clean(url: str) -> list[str]:
    """Remove what killed audits have left; what that was, in words."""
    cleaned: list[str] = []
    for part, name in await _parts(url):
        left = await _is_left(part, "")
        if left:
            await end(part, "")
        cleaned.append(f"{name}: {'removed' if left else UNDER_WAY}")
    place = looking(parse(url)).text
    try:
        async with opened(place) as engine:
            noted = [item.entity.id async for item in _everything(engine, REGISTRY)]
    except SchemaError:
        return cleaned  # there is no store here that an audit could have worked in
    for name in noted:
        if not await _is_left(place, name):
            cleaned.append(f"{name}: {UNDER_WAY}")
            continue
        cleaned.append(f"{name}: {await _remove_written(place, name)} removed")
        await _forget(place, name)
    return cleaned


async def _parts(url: str) -> list[tuple[str, str]]:
    """Yield the URLs of schemas and files that were made for audits, with their names."""
    if capabilities(url).schemas:
        schemas = cast(Schemas, create_engine(parse(url), World()))
        names = [name for name in await schemas.marked_schemas(NOTE) if name.startswith(SCHEMA)]
        return [(with_options(url, schema=name, migrate="off"), f"schema {name}") for name in names]
    path = file_of(parse(url))
    if path is None:
        return []
    files = sorted(glob.glob(f"{glob.escape(path)}.{PREFIX}*"))
    return [
        (with_options(_beside(url, file[len(path) :]), migrate="off"), os.path.basename(file))
        for file in files
        if not file.endswith(BESIDE)
    ]


# --- stores and engines -----------------------------------------------------------------


async def _everything(engine: Engine, namespace: str) -> AsyncIterator[Found]:
    after: str | None = None
    while True:
        listed = (await engine.execute((List(namespace, after=after),)))[0]
        assert isinstance(listed, Listed)
        for item in listed.entities:
            yield item
        if listed.next is None:
            return
        after = listed.next


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Engine]:
    """Open the engine of a URL without any layer."""
    engine: Engine = create_engine(parse(url), World())
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


def remove_file(path: str) -> None:
    """Remove an audit's SQLite file, with the files that SQLite keeps beside it."""
    for end in ("", *BESIDE):
        if os.path.exists(f"{path}{end}"):
            os.remove(f"{path}{end}")
