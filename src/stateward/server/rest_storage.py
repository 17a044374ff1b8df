"""The REST API of the store itself."""

from __future__ import annotations

from msgspec import Struct

from stateward.engine import Namespaces
from stateward.errors import InvalidInput
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, RestRoute


class NamespaceNames(Struct, frozen=True):
    """Namespaces, by the bytes of their names."""

    items: list[str]


async def _storage(call: RestCall) -> Reply:
    return answer(await call.store.counts())


async def _namespaces(call: RestCall) -> Reply:
    stack, asker = call.store.sections["workflows"].stack, call.asker
    await stack.ready()
    if not isinstance(stack.engine, Namespaces):
        raise InvalidInput("the service's store does not say which namespaces it has")
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
        "How much there is of each kind",
        dict[str, int],
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/namespaces",
        "operate",
        _namespaces,
        "Which namespaces there are that the key is for",
        NamespaceNames,
        one_users=False,
    ),
)
