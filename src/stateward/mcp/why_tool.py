"""The tool that says why an agent forgot."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.actions.action import ActionCall, Mcp
from stateward.actions.arguments import Arguments
from stateward.actions.threads import ThreadId
from stateward.codec import MOST as MOST_NUMBER
from stateward.errors import InvalidInput
from stateward.mcp.action_tools import Model
from stateward.mcp.conversation_reads import CONVERSATIONS, missing_conversation
from stateward.mcp.size import MOST, cut, page_of
from stateward.records import Cursor
from stateward.why.explanation import explain
from stateward.why.moment import read_moment
from stateward.why.records import (
    AppendSpan,
    Cause,
    Explanation,
    Judgement,
    KnowledgeDifference,
    MessageSight,
    Sign,
)

READ_FOR_WHY = 100  # messages before a turn, and after it
WHY_SECONDS = 30.0  # that a client waits for it without doubt


class Why(Arguments, frozen=True):
    """Which turn of a conversation."""

    thread: ThreadId
    message: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_NUMBER)] | None,
        "The number of any message of the turn, as read_conversation shows it. Without one: the "
        "turn with the strongest sign of lost context, or else the last one.",
    ] = None


class WhyAnswer(Struct, frozen=True):
    """What an agent was given at a turn, what it was not, and why.

    `answer` says it in a sentence or two, `advice` what to do about it. `messages` are those before
    the turn, the newest of them, each with whether the model was given it and why not; `not_shown`
    says how many older ones are left out here.
    """

    thread: str
    user: str | None
    turn: AppendSpan
    judgement: Judgement
    answer: str
    advice: str
    causes: list[Cause]
    signs: list[Sign]
    messages: list[MessageSight]
    not_shown: int
    summary: str | None
    documents: dict[str, Any]
    before: KnowledgeDifference | None
    now: KnowledgeDifference | None


def why_answer(it: Explanation) -> WhyAnswer:
    sights = page_of(it.messages, READ_FOR_WHY, lambda sight: "", more=False, back=True).items
    return WhyAnswer(
        it.thread,
        it.user,
        it.turn,
        it.judgement,
        it.answer,
        it.advice,
        list(it.causes),
        list(it.signs),
        sights,
        len(it.messages) - len(sights),
        cut(it.summary, MOST // 10),
        cut(it.documents, MOST // 5),
        it.before,
        it.now,
    )


@CONVERSATIONS.read(
    "why",
    Why,
    WhyAnswer,
    right="threads.read",
    about="thread",
    log="thread read",
    for_one_user=True,
    mcp=Mcp(
        "why",
        "Explain a turn of a conversation in which the agent forgot or repeated something: what "
        "the model was given, what it was not, why, and what to do about it.",
    ),
)
async def _why(call: ActionCall) -> WhyAnswer:
    """Explain a turn of a conversation."""
    asked: Why = call.arguments
    at = None if asked.message is None else Cursor(asked.message)
    offload = call.store.sections["threads"].world.offload
    hosts = isinstance(call.principal, Model) and call.principal.caller.operates
    try:
        async with asyncio.timeout(WHY_SECONDS):
            moment = await read_moment(call.store, asked.thread, at, last=READ_FOR_WHY, hosts=hosts)
            if moment is None:
                raise missing_conversation(asked.thread)
            return why_answer(await offload(explain, moment))
    except TimeoutError as error:
        raise InvalidInput(
            f"the conversation {asked.thread!r} is too long to explain here: "
            f"read_conversation shows it, and `stateward why URL {asked.thread}` takes its time"
        ) from error
