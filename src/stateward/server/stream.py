"""Events to one client, one at a time: nothing is kept for someone who does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

QUIET_SECONDS = 15.0  # after which a comment says that the stream still lives
SLOW_SECONDS = 30.0  # that a client may leave an event unread before it is cut off
COMMENT = b": still here\n\n"


async def streamed(
    events: AsyncGenerator[bytes, None],
    send: Callable[[dict[str, Any]], Awaitable[None]],
    ends: Sequence[Coroutine[Any, Any, Any]],
) -> bool:
    """Send events until there are no more or one of the `ends` has come.

    False: the client read too slowly and is cut off; it has the id of the last event it has read.
    The next event is asked for when the client has taken the last one.
    """
    ending = [asyncio.ensure_future(end) for end in ends]
    following: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events, None))
            waiting = (following, *ending)
            done, _ = await asyncio.wait(
                waiting, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not done.isdisjoint(ending):
                return True
            data: bytes | None = COMMENT
            if following in done:
                data, following = following.result(), None
                if data is None:
                    return True
            try:
                async with asyncio.timeout(SLOW_SECONDS):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except TimeoutError:
                return False
    finally:
        tasks = [*ending] if following is None else [*ending, following]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await events.aclose()
