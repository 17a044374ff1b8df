"""The REST API of questions: what workflows ask and wait for."""

from __future__ import annotations

from msgspec import Struct

from stateward.errors import NotYoursError
from stateward.kinds import QUESTION, WORKFLOW
from stateward.records import OpenQuestion
from stateward.server.reply import Reply
from stateward.server.rest import ChangeMade, Limit, Page, ValueBody, answer, page, whose
from stateward.server.route import RestCall, Routes
from stateward.state.questions import answer as answer_question


class WaitingQuery(Struct, frozen=True, forbid_unknown_fields=True, rename={"for_": "for"}):
    """Which open questions, the oldest first; `for` is whom they are for."""

    user: str | None = None
    signal: str | None = None
    for_: str | None = None
    limit: Limit = 100
    after: str | None = None


QUESTIONS = Routes()


@QUESTIONS.route("GET /v1/waiting", "read", Page[OpenQuestion], WaitingQuery)
async def _waiting(call: RestCall) -> Reply:
    """List the open questions of workflows, oldest first."""
    query: WaitingQuery = call.query
    listing = call.store.waiting(
        query.signal,
        for_=query.for_,
        user=whose(call, query.user),
        after=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda question: question.id)


@QUESTIONS.logged("question answer")
@QUESTIONS.route(
    "POST /v1/waiting/{question}/answer",
    "write",
    ChangeMade,
    body=ValueBody,
    writes=(WORKFLOW, QUESTION),
)
async def _answer(call: RestCall) -> Reply:
    """Answer a question; the first answer counts."""
    body: ValueBody = call.body
    scope, id = call.store.sections["workflows"], call.path["question"]
    # A user's key passes the same checks as ever: the question and its workflow are theirs.
    try:
        counts = await answer_question(scope, id, body.value, by=call.asker.user)
    except NotYoursError:
        counts = False  # as if it were not there
    return answer(ChangeMade(counts))
