"""The one table of the REST API: routing, checks, OpenAPI and the reference are made from it."""

from __future__ import annotations

from functools import cache
from typing import Any

from stateward.server.openapi import document_of
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.rest_documents import DOCUMENTS
from stateward.server.rest_store import STORE
from stateward.server.rest_threads import THREADS
from stateward.server.rest_work import WORK
from stateward.server.route import RestCall, RestRoute


@cache
def openapi() -> dict[str, Any]:
    """This table as OpenAPI 3.1."""
    return document_of(ROUTES)


async def _openapi(call: RestCall) -> Reply:
    return answer(openapi())


ROUTES = (
    *THREADS,
    *DOCUMENTS,
    *WORK,
    *STORE,
    RestRoute(
        "GET", "/v1/openapi.json", "read", _openapi, "This API as OpenAPI 3.1", dict[str, Any]
    ),
)
