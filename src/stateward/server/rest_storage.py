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
from stateward.server.route import RestCall, RestRoute


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


async def _storage(call: RestCall) -> Reply:
    if call.asker.namespaces is not None:
        return answer(StorageShown(await call.store.counts(), None, None, None, None))
    kinds, it = await asyncio.gather(call.store.counts(), call.store.describe())
    return answer(StorageShown(kinds, it.engine, it.bytes, it.rows, it.capacity))


async def _largest(call: RestCall) -> Reply:
    query: LargestQuery = call.query
    listing = call.store.threads(archived=None, order="recent", limit=MOST_LISTED)
    found = [info async for info in listing]
    found.sort(key=lambda info: (-info.messages, info.id))
    return answer(LargestThreads(found[: query.limit]))


async def _namespaces(call: RestCall) -> Reply:
    stack, asker = call.store.sections["workflows"].stack, call.asker
    await stack.ready()
    if not isinstance(stack.engine, Namespaces):
        raise InvalidInput("the service's store cannot list its namespaces")
    names = await stack.engine.namespaces()
    if asker.namespaces is not None:
        names = [name for name in names if name in asker.namespaces]
    return answer(NamespaceNames([name for name in names if name != OWN_NAMESPACE]))


STORAGE = (
    RestRoute(
        "GET",
        "/v1/storage",
        "operate",
        _storage,
        "Count what the namespace holds, by kind, and get the size of the store",
        StorageShown,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/storage/largest",
        "operate",
        _largest,
        "List the longest of the most recently changed conversations",
        LargestThreads,
        LargestQuery,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/namespaces",
        "operate",
        _namespaces,
        "List the namespaces that the key has access to",
        NamespaceNames,
        one_users=False,
    ),
)
