"""What workflows ask people: listed oldest first, answered once.

A question is a small entity of its own, so that an inbox is one page of one index however many
workflows there are. It is there before its workflow is parked, and goes before the workflow records
what it was answered; how that survives every crash is in `loose_ends`. Its id begins with the time
at which it was asked, so that the order of ids is the order of asking. Its status is whom it is
for, its label the signal, its owner the workflow's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
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
    Listed,
    NotDroppedSince,
    Put,
    SetHead,
    StatusIn,
)
from stateward.records import OpenQuestion
from stateward.state.handle import Handle
from stateward.state.loose_ends import question_of
from stateward.state.refusals import stored
from stateward.state.run_record import ACTIVE
from stateward.state.scope import Scope
from stateward.state.work import signal_writes
from stateward.world import World


def question_id(world: World, at: float) -> str:
    """Never used before, and in the order of time."""
    return f"{max(0, int(at * 1e6)):017d}-{world.new_id()}"


async def ask(scope: Scope, id: str, owner: str, question: dict[str, Any], since: float) -> None:
    """Show a question, if it is not shown yet and was not withdrawn since then."""
    handle = Handle(scope, scope.entity(QUESTION, id), owner)
    text = encode_value(question, "the question", scope.limits)
    head = SetHead(status=question["for"] or None, label=question["signal"])
    outcome = await handle.commit((head, Put(QUESTION, text)), (Absent(), NotDroppedSince(since)))
    if not isinstance(outcome, Conflict):
        stored(outcome, handle.entity)


async def withdraw(scope: Scope, id: str) -> None:
    """Show it no longer."""
    handle = Handle(scope, scope.entity(QUESTION, id))
    stored(await handle.commit((Drop(),)), handle.entity)


async def answer(scope: Scope, id: str, value: Any, *, by: str | None = None) -> bool:
    """Tell the workflow that asked; False if the question is not open any more.

    With `by`, a user, it must be for them, or for no one in particular: `NotPermitted` otherwise.
    The signal is one for this very wait, so that a late answer is never taken for that to another
    question, and has a key: of two answers the first counts.
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
        stored(outcome, workflow.entity)
        counts = not (isinstance(outcome, Duplicate) and not outcome.own)
    await withdraw(scope, id)  # or whoever takes the answer does it
    return counts


async def open_questions(
    scope: Scope,
    signal: str | None,
    for_: str | None,
    owner: str | None,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[OpenQuestion]:
    """What waits for an answer, oldest first. A page is one round trip."""
    size = scope.capabilities.page
    if after is not None:
        after = encode([0.0, QUESTION, after], "a cursor")
    left = None if limit is None else check_count(limit, "limit")
    op = List(
        scope.namespace,
        kind=QUESTION,
        label=signal,
        status=for_,
        owner=owner,
        documents=(QUESTION,),
    )
    while True:
        page = replace(op, after=after, limit=size if left is None else min(size, left))
        listed = (await scope.execute_here((page,)))[0]
        assert isinstance(listed, Listed)
        for found in listed.entities:
            yield question_of(found)
        if left is not None:
            left -= len(listed.entities)
        if listed.next is None or left == 0:
            return
        after = listed.next
