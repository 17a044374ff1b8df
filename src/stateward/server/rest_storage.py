"""The REST API of the store itself."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from stateward.engine import Namespaces
from stateward.errors import InvalidInput
from stateward.records import ThreadInfo
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.reply import Reply
from stateward.server.rest import MOST_LISTED, Limit, answer
from stateward.server.route import RestCall, Routes


class NamespaceNames(Struct, frozen=True):
    """Namespaces, by the bytes of their names."""

    items: list[str]


class StorageShown(Struct, frozen=True):
    """How much there is in the namespace by kind, and how large the whole store is.

    What has expired counts until it is swept. The whole store is told to those alone whose key is
    for every namespace; `capacity` is how many bytes it can grow to, where the store knows.
    """

    kinds: dict[str, int]
    engine: str | None
    bytes: int | None
    rows: int | None
    capacity: int | None


class LargestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many, of the thousand conversations that were touched last."""

    limit: Limit = 20


class LargestThreads(Struct, frozen=True):
    """Conversations, those with the most messages first."""

    items: list[ThreadInfo]


STORAGE = Routes("storage")


@STORAGE.route("GET /v1/storage", "operate", StorageShown, one_users=False)
async def _storage(call: RestCall) -> Reply:
    """Count what the namespace holds, by kind, and get the size of the store."""
    if call.asker.namespaces is not None:
        return answer(StorageShown(await call.store.counts(), None, None, None, None))
    kinds, facts = await asyncio.gather(call.store.counts(), call.store.describe())
    return answer(StorageShown(kinds, facts.engine, facts.bytes, facts.rows, facts.capacity))


@STORAGE.route("GET /v1/storage/largest", "operate", LargestThreads, LargestQuery, one_users=False)
async def _largest(call: RestCall) -> Reply:
    """List the longest of the most recently changed conversations."""
    query: LargestQuery = call.query
    listing = call.store.threads(archived=None, order="recent", limit=MOST_LISTED)
    infos = [info async for info in listing]
    infos.sort(key=lambda info: (-info.messages, info.id))
    return answer(LargestThreads(infos[: query.limit]))


@STORAGE.route(
    "GET /v1/namespaces", "operate", NamespaceNames, right="namespaces.read", one_users=False
)
async def _namespaces(call: RestCall) -> Reply:
    """List the namespaces that the key has access to."""
    stack, asker = call.store.sections["workflows"].stack, call.asker
    await stack.ready()
    if not isinstance(stack.engine, Namespaces):
        raise InvalidInput("the service's store cannot list its namespaces")
    names = await stack.engine.namespaces()
    if asker.namespaces is not None:
        names = [name for name in names if name in asker.namespaces]
    return answer(NamespaceNames([name for name in names if name != OWN_NAMESPACE]))
