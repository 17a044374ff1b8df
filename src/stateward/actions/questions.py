"""Actions on questions: what workflows ask and wait for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from stateward.actions.action import ActionCall, Actions, ChangeMade, Cli, Mcp, Rest
from stateward.actions.arguments import After, Arguments, Id, Limit, Name, User
from stateward.errors import NotYoursError
from stateward.kinds import QUESTION, WORKFLOW
from stateward.records import OpenQuestion
from stateward.state.questions import answer

QUESTIONS = Actions(QUESTION)


class ListQuestions(Arguments, frozen=True, rename={"for_": "for"}):
    """Which open questions, the oldest first; `for` is whom they are for."""

    user: User = None
    signal: Annotated[Name | None, "Only those that wait for this signal, e.g. approval."] = None
    for_: Annotated[Name | None, "Only those that this person or team is to answer."] = None
    limit: Limit = 100
    after: After = None


@QUESTIONS.list(
    ListQuestions,
    OpenQuestion,
    lambda question: question.id,
    for_one_user=True,
    rest=Rest("GET /v1/waiting"),
    mcp=Mcp(
        "list_questions",
        "List what workflows ask people and wait for, such as approvals, the oldest first.",
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[OpenQuestion]:
    """List the open questions of workflows, oldest first."""
    asked: ListQuestions = call.arguments
    return call.store.waiting(
        asked.signal, for_=asked.for_, user=call.whose, after=asked.after, limit=asked.limit
    )


class AnswerQuestion(Arguments, frozen=True):
    """The value of a signal."""

    question: Annotated[Id, "The id of the question, as list_questions shows it."]
    value: Annotated[Any, "The answer as JSON, in the form that the question asks for."] = None


@QUESTIONS.change(
    "answer",
    AnswerQuestion,
    ChangeMade,
    role="agent",
    for_one_user=True,
    rest=Rest("POST /v1/waiting/{question}/answer", "ValueBody", writes=(WORKFLOW, QUESTION)),
    mcp=Mcp(
        "answer_question",
        "Answer what a workflow asks and waits for, e.g. an approval. Of several answers the first "
        "counts; `changed` is false if the question is no longer open. The workflow continues "
        "immediately, and this cannot be undone: answer only what the person you work for decided.",
        required=("value",),
    ),
    cli=Cli(
        """\
The value is JSON, in the form that the question asks for. The first answer counts. The workflow
continues immediately.

examples:
  stateward question answer sqlite:///agents.db ID --value '{"approved": true}' --yes
  stateward waiting sqlite:///agents.db                                   shows the ids""",
        "Answer the question {question!r} with {value}",
        "answered",
        answers=("the question is answered", "the question is no longer open: nothing to do"),
    ),
)
async def _answer(call: ActionCall) -> ChangeMade:
    """Answer a question; the first answer counts."""
    asked: AnswerQuestion = call.arguments
    scope = call.store.sections["workflows"]
    # The checks of a user's key hold here too: the question and its workflow are theirs.
    try:
        return ChangeMade(await answer(scope, asked.question, asked.value, by=call.principal.user))
    except NotYoursError:  # as if it were not there
        return ChangeMade(False)
