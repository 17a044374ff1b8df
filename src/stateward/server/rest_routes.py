"""The one table of the REST API: routing, checks, OpenAPI and the reference are made from it."""

from __future__ import annotations

from functools import cache
from typing import Any

from stateward.actions.effects import EFFECTS
from stateward.actions.kinds import KINDS
from stateward.actions.questions import QUESTIONS
from stateward.actions.schedules import SCHEDULES
from stateward.actions.tasks import TASKS
from stateward.actions.workflows import WORKFLOWS
from stateward.server.openapi import document_of
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.rest_actions import routes_of
from stateward.server.rest_audits import AUDITS
from stateward.server.rest_context import CONTEXT
from stateward.server.rest_conversation_items import CONVERSATION_ITEMS
from stateward.server.rest_conversations import CONVERSATIONS
from stateward.server.rest_documents import DOCUMENTS
from stateward.server.rest_find import FIND
from stateward.server.rest_journals import JOURNALS
from stateward.server.rest_keys import KEYS
from stateward.server.rest_knowledge import KNOWLEDGE
from stateward.server.rest_locks import LOCKS
from stateward.server.rest_operations import OPERATIONS_LOG
from stateward.server.rest_replicas import REPLICAS
from stateward.server.rest_signals import SIGNALS
from stateward.server.rest_storage import STORAGE
from stateward.server.rest_threads import THREADS
from stateward.server.rest_transcripts import TRANSCRIPTS
from stateward.server.rest_users import USERS
from stateward.server.route import RestCall, RestRoute


@cache
def openapi() -> dict[str, Any]:
    """This table as OpenAPI 3.1."""
    return document_of(ROUTES)


async def _openapi(call: RestCall) -> Reply:
    return answer(openapi())


ROUTES = (
    *THREADS,
    *TRANSCRIPTS,
    *KNOWLEDGE,
    *CONVERSATION_ITEMS,
    *CONVERSATIONS,
    *DOCUMENTS,
    *routes_of(WORKFLOWS),
    *routes_of(QUESTIONS),
    *routes_of(TASKS),
    *routes_of(EFFECTS),
    *routes_of(SCHEDULES),
    *LOCKS,
    *CONTEXT,
    *JOURNALS,
    *USERS,
    *STORAGE,
    *FIND,
    *routes_of(KINDS),
    *REPLICAS,
    *OPERATIONS_LOG,
    *KEYS,
    *SIGNALS,
    *AUDITS,
    RestRoute(
        "GET", "/v1/openapi.json", "read", _openapi, "Get this API as OpenAPI 3.1", dict[str, Any]
    ),
)
