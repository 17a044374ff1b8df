"""Actions on answers that are written live: which there are, reading one, and stopping it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from msgspec import Meta

from stateward.actions.action import ActionCall, Actions, ChangeMade, Cli, Missing, Rest
from stateward.actions.arguments import After, Arguments, Limit, Name, User
from stateward.actions.page import past
from stateward.actions.threads import OneThread, ThreadId, thread_of
from stateward.actions.transcripts import LastEvent
from stateward.kinds import STREAM, THREAD
from stateward.state.live_feed import find_live
from stateward.state.server_sent import LiveData, cursor_of
from stateward.state.stream_record import STREAMING, LiveAnswer, LiveEvent
from stateward.wire import EVENTS

LONGEST_WAIT = 30.0  # seconds

Request = Annotated[Name, "The key of the request that is answered."]


async def find_answer(call: ActionCall) -> LiveAnswer | None:
    """Return the live answer that a request is about; None: there is none."""
    return await find_live(thread_of(call).handle, call.arguments.request)


LIVE = Actions(THREAD, find_answer, role="agent", for_one_user=True)


class LivesOfThread(OneThread, frozen=True, kw_only=True):
    """Some of the live answers, by request."""

    limit: Limit = 100
    after: After = None


@LIVE.list(
    LivesOfThread,
    LiveAnswer,
    lambda answer: answer.request,
    "lives",
    info=None,
    rest=Rest("GET /v1/threads/{thread}/lives"),
    cli=Cli(
        """\
Changes nothing. Answers are listed while they are written, and for an hour afterwards.

examples:
  stateward thread lives sqlite:///agents.db s-abc123
  stateward thread lives sqlite:///agents.db s-abc123 --json""",
        columns=("request", "status", "started_at", "updated_at"),
    ),
)
async def _lives(call: ActionCall) -> AsyncIterator[LiveAnswer]:
    """List the requests that are being answered live, or were lately."""
    answers = [answer async for answer in thread_of(call).lives()]
    answers.sort(key=lambda answer: answer.request.encode())

    async def listed() -> AsyncIterator[LiveAnswer]:
        for answer in answers:
            yield answer

    return past(listed(), call.arguments.after, lambda answer: answer.request)


class LiveOfThread(OneThread, frozen=True, kw_only=True):
    """Which request (the one that is being answered), and behind which event to begin.

    `wait` is for how many seconds it may not have been begun.
    """

    request: Request | None = None
    after: After = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    last_event: LastEvent = None


@LIVE.read(
    "live",
    LiveOfThread,
    LiveData,
    info=None,
    rest=Rest("GET /v1/threads/{thread}/live", gives=EVENTS),
)
async def _live(call: ActionCall) -> AsyncGenerator[LiveEvent, None] | None:
    """Stream an answer while it is written, to its end."""
    asked: LiveOfThread = call.arguments
    thread, request = thread_of(call), asked.request
    if request is None:
        answers = [each async for each in thread.lives() if each.status == STREAMING]
        if not answers:
            raise Missing("live answer in the thread", asked.thread)
        request = max(answers, key=lambda answer: answer.started_at).request
    after = asked.after if asked.last_event is None else cursor_of(asked.last_event)
    events = thread.live(request, after=after, wait=asked.wait)
    if await find_live(thread.handle, request) is not None:
        return events
    first = await anext(events)  # before the response begins, which a refusal is not to follow
    if first.status == "absent":
        await events.aclose()
        raise Missing("request", request)
    return _all(first, events)


async def _all(
    first: LiveEvent, others: AsyncGenerator[LiveEvent, None]
) -> AsyncGenerator[LiveEvent, None]:
    async with aclosing(others):
        yield first
        async for event in others:
            yield event


class StopAnswer(Arguments, frozen=True):
    """Which request."""

    thread: ThreadId
    request: Request
    user: User = None


@LIVE.change(
    "stop",
    StopAnswer,
    ChangeMade,
    logs=("request",),
    rest=Rest("POST /v1/threads/{thread}/stop", "StopBody", writes=(STREAM,)),
    cli=Cli(
        """\
Readers get nothing that is written from now on, and the writer is told, wherever it is. What was
written is kept for an hour; the question stays in the conversation.

examples:
  stateward thread stop sqlite:///agents.db s-abc123 --request r-1 --dry-run
  stateward thread stop sqlite:///agents.db s-abc123 --request r-1 --yes --json""",
        "Stop the answer to {request!r} in the thread {thread!r}",
        "stopped",
    ),
)
async def _stop(call: ActionCall) -> ChangeMade:
    """Stop an answer that is being written live."""
    if await find_answer(call) is None:
        raise Missing("request", call.arguments.request)
    return ChangeMade(await thread_of(call).stop(call.arguments.request))
