"""Questions that workflows ask people: listed oldest first, answered once.

A question is a small entity of its own, so that an inbox is one page of one index however many
workflows there are. The question is stored before its workflow is parked, and removed before the
workflow records the answer; `loose_ends` explains how that survives every crash. Its id begins with
the time of asking, so that questions are listed in that order. Its status is the addressee, its
label the signal, its owner that of the workflow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from stateward.codec import check_count, decode, encode, encode_value
from stateward.errors import NotPermitted
from stateward.kinds import QUESTION, WORKFLOW
from stateward.ops import (
    Absent,
    Conflict,
    Drop,
    Duplicate,
    KeyReused,
    List,
    NotDroppedSince,
    Put,
    SetHead,
    StatusIn,
)
from stateward.records import OpenQuestion
from stateward.state.handle import Handle
from stateward.state.loose_ends import question_of
from stateward.state.malformed import readable
from stateward.state.refusals import stored
from stateward.state.scope import Scope
from stateward.state.work import signal_writes
from stateward.state.workflow_record import ACTIVE
from stateward.world import World


def question_id(world: World, at: float) -> str:
    """Return a new, unique id; ids sort by time."""
    return f"{max(0, int(at * 1e6)):017d}-{world.new_id()}"


async def ask(scope: Scope, id: str, owner: str, question: dict[str, Any], since: float) -> None:
    """Store a question unless it exists already or was withdrawn after `since`."""
    handle = Handle(scope, scope.entity(QUESTION, id), owner)
    text = encode_value(question, "the question", scope.limits)
    head = SetHead(status=question["for"] or None, label=question["signal"])
    await handle.commit_if((Absent(), NotDroppedSince(since)), head, Put(QUESTION, text))


async def withdraw(scope: Scope, id: str) -> None:
    """Remove a question, if it still exists."""
    handle = Handle(scope, scope.entity(QUESTION, id))
    stored(await handle.commit((Drop(),)), handle.entity)


async def answer(scope: Scope, id: str, value: Any, *, by: str | None = None) -> bool:
    """Send the answer to the workflow that asked; False if the question is no longer open.

    `by` is a user; raises `NotPermitted` if the question is addressed to another one. The signal
    names this wait alone, so that a late answer is never taken for that to another question, and
    has a key, so that the first of two answers counts. One that the store received after the
    question's deadline does not count, even if no worker has noticed the deadline yet.
    """
    fetched = await Handle(scope, scope.entity(QUESTION, id)).fetch(documents=(QUESTION,))
    if QUESTION not in fetched.documents:
        return False
    asked = decode(fetched.documents[QUESTION].json)
    if by is not None and asked["for"] not in (None, "", by):
        raise NotPermitted("that question is addressed to another user")
    workflow = Handle(scope, scope.entity(WORKFLOW, asked["workflow"]))
    writes = signal_writes(asked["wait"], value, id, scope.limits)
    outcome = await workflow.commit(writes, (StatusIn((ACTIVE,)),))
    counts = not isinstance(outcome, Conflict | KeyReused)
    if counts:
        at = stored(outcome, workflow.entity).at
        counts = not (isinstance(outcome, Duplicate) and not outcome.own)
        counts = counts and (asked["until"] is None or at <= asked["until"])
    await withdraw(scope, id)  # if we die before this, the workflow does it
    return counts


async def open_questions(
    scope: Scope,
    signal: str | None,
    for_: str | None,
    owner: str | None,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[OpenQuestion]:
    """Yield the questions that wait for an answer, oldest first; a round trip per page."""
    if after is not None:
        after = encode([0.0, QUESTION, after], "a cursor")
    limit = None if limit is None else check_count(limit, "limit")
    op = List(
        scope.namespace,
        kind=QUESTION,
        label=signal,
        status=for_,
        owner=owner,
        documents=(QUESTION,),
        after=after,
    )
    left = limit
    while left != 0:
        malformed, last = 0, op.after
        async for page in scope.pages(op, here=True, limit=left):
            for asked in page.entities:
                last = encode([0.0, QUESTION, asked.entity.id], "a cursor")
                question = readable(asked.entity, partial(question_of, asked))
                if question is None:
                    malformed += 1
                else:
                    yield question
        if left is None or not malformed:
            return
        op, left = replace(op, after=last), malformed
