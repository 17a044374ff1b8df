"""The one table of the REST API: routing, checks, OpenAPI and the reference are made from it."""

from __future__ import annotations

from functools import cache
from typing import Any

from stateward.actions.context import CONTEXT
from stateward.actions.effects import EFFECTS
from stateward.actions.journals import JOURNALS
from stateward.actions.kinds import KINDS
from stateward.actions.knowledge import KNOWLEDGE
from stateward.actions.live import LIVE
from stateward.actions.locks import LOCKS
from stateward.actions.operations import OPERATIONS_LOG
from stateward.actions.questions import QUESTIONS
from stateward.actions.rights import OWN
from stateward.actions.schedules import SCHEDULES
from stateward.actions.tasks import TASKS
from stateward.actions.threads import THREADS
from stateward.actions.transcripts import TRANSCRIPTS
from stateward.actions.users import USERS
from stateward.actions.workflows import WORKFLOWS
from stateward.server.openapi import document_of
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.rest_actions import routes_of
from stateward.server.rest_appends import APPENDS
from stateward.server.rest_audits import AUDITS
from stateward.server.rest_conversation_items import CONVERSATION_ITEMS
from stateward.server.rest_conversations import CONVERSATIONS
from stateward.server.rest_documents import DOCUMENTS
from stateward.server.rest_find import FIND
from stateward.server.rest_keys import KEYS
from stateward.server.rest_replicas import REPLICAS
from stateward.server.rest_signals import SIGNALS
from stateward.server.rest_storage import STORAGE
from stateward.server.route import RestCall, RestRoute


@cache
def openapi() -> dict[str, Any]:
    """This table as OpenAPI 3.1."""
    return document_of(ROUTES)


async def _openapi(call: RestCall) -> Reply:
    return answer(openapi())


ROUTES = (
    *routes_of(THREADS),
    *routes_of(TRANSCRIPTS),
    *routes_of(LIVE),
    *routes_of(KNOWLEDGE),
    *APPENDS,
    *CONVERSATION_ITEMS,
    *CONVERSATIONS,
    *DOCUMENTS,
    *routes_of(WORKFLOWS),
    *routes_of(QUESTIONS),
    *routes_of(TASKS),
    *routes_of(EFFECTS),
    *routes_of(SCHEDULES),
    *routes_of(LOCKS),
    *routes_of(CONTEXT),
    *routes_of(JOURNALS),
    *routes_of(USERS),
    *STORAGE,
    *FIND,
    *routes_of(KINDS),
    *REPLICAS,
    *routes_of(OPERATIONS_LOG),
    *KEYS,
    *SIGNALS,
    *AUDITS,
    RestRoute(
        *("GET", "/v1/openapi.json", OWN, "read", _openapi, "Get this API as OpenAPI 3.1"),
        dict[str, Any],
    ),
)
