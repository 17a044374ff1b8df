"""Live answers for FastAPI and Starlette: a response whose task owns the turn.

    return await live_response(thread, answer, key=request_id, question=message, last=20)

The turn is entered before the response begins, so a refusal has its status: 403, 409, 423, 503. A
client that goes away aborts nothing; `resumed_response` gives it the rest when it comes back, from
any replica. Both send server-sent events, whose ids are the cursors of `thread.live`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse

import stateward
from stateward.state.server_sent import cursor_of, server_sent

SSE = "text/event-stream"
HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
LOCAL_SECONDS = 0.05  # between two looks at a turn of this process, while the store is down

Answer = Callable[[stateward.Turn], Awaitable[object]]

logger = logging.getLogger("stateward.streams")
_running: set[asyncio.Task[None]] = set()  # an event loop holds its tasks weakly


async def live_response(
    thread: stateward.Thread,
    answer: Answer,
    *,
    key: str,
    stop_on_disconnect: bool = False,
    **options: Any,
) -> StreamingResponse:
    """Answer a request with a live turn, and return a response that reads it.

    `answer` gets the turn, unless the request was answered before: it writes what the model says
    with `turn.write`, and ends with `turn.store`. It runs in a task of its own, which a closed
    connection does not end, unless `stop_on_disconnect`. `options` are those of `thread.turn`.
    Raises what refuses the turn.
    """
    turn = thread.turn(key=key, live=True, **options)
    entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.get_running_loop().create_task(_answer(turn, answer, entered))
    _running.add(task)
    task.add_done_callback(_running.discard)
    try:
        await entered
    except asyncio.CancelledError:
        task.cancel()
        raise
    events = _own_events(thread, turn, task, stop_on_disconnect=stop_on_disconnect)
    return StreamingResponse(events, media_type=SSE, headers=HEADERS)


async def resumed_response(
    thread: stateward.Thread, request: str, *, after: str | None = None, wait: float = 10.0
) -> StreamingResponse:
    """Return a response that reads a live answer, whichever process writes it.

    `after` is the `Last-Event-ID` of the client. Raises what refuses the first read.
    """
    events = thread.live(request, after=cursor_of(after), wait=wait)
    first = await anext(events)
    return StreamingResponse(_all_events(first, events), media_type=SSE, headers=HEADERS)


async def _answer(turn: stateward.Turn, answer: Answer, entered: asyncio.Future[None]) -> None:
    """Carry out the turn; whoever waits for `entered` gets what refuses it."""
    try:
        async with turn:
            if not entered.done():
                entered.set_result(None)
            if turn.answer is None:
                await answer(turn)
    except stateward.TurnStopped:
        pass  # as its user wanted
    except Exception as error:
        if not entered.done():
            entered.set_exception(error)
            return
        logger.error("live_answer_failed", extra={"error": repr(error)}, exc_info=error)
    finally:
        if not entered.done():
            entered.cancel()


async def _own_events(
    thread: stateward.Thread,
    turn: stateward.Turn,
    task: asyncio.Task[None],
    *,
    stop_on_disconnect: bool,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a turn of this process; without the store, what it has written."""
    sent, is_over = 0, False
    try:
        if turn.known:
            try:
                async with aclosing(thread.live(turn.key, wait=None)) as events:
                    async for event in events:
                        sent = 0 if event.kind == "begin" else sent + len(event.text)
                        is_over = event.kind == "end"
                        yield server_sent(event)
                return
            except stateward.StoreUnavailable:
                pass
        while True:
            is_over = task.done()
            text, sent = turn.text[sent:], len(turn.text)
            if text:
                yield server_sent(stateward.LiveEvent("delta", "", text, (text,)))
            if is_over:
                break
            await asyncio.wait([task], timeout=LOCAL_SECONDS)
        yield server_sent(_local_end(turn))
    finally:
        if stop_on_disconnect and not is_over:
            stopping = asyncio.get_running_loop().create_task(_stop(thread, turn.key))
            _running.add(stopping)
            stopping.add_done_callback(_running.discard)


def _local_end(turn: stateward.Turn) -> stateward.LiveEvent:
    try:
        return stateward.LiveEvent("end", "", status="done", message=turn.reply)
    except stateward.InvalidInput:  # it has no answer
        status = "stopped" if turn.stopped else "interrupted"
        return stateward.LiveEvent("end", "", status=status)  # type: ignore[arg-type]


async def _stop(thread: stateward.Thread, key: str) -> None:
    try:
        await thread.stop(key)
    except stateward.StatewardError as error:
        logger.warning("live_answer_not_stopped", extra={"error": type(error).__name__})


async def _all_events(
    first: stateward.LiveEvent, others: AsyncGenerator[stateward.LiveEvent, None]
) -> AsyncIterator[bytes]:
    async with aclosing(others):
        yield server_sent(first)
        async for event in others:
            yield server_sent(event)
