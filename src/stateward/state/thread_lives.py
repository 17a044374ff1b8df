"""Answers of a thread while they are written, and those that others were stored instead of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

from stateward.codec import check_id, check_span
from stateward.state.handle import Handle

# Modules that few conversations need are imported by the methods that use them.
if TYPE_CHECKING:
    from stateward.state.replaced_record import Replaced
    from stateward.state.stream_record import LiveAnswer, LiveEvent


class LiveThread:
    """The methods of a thread for answers that are written live, or again."""

    handle: Handle

    def live(
        self, request: str, *, after: str | None = None, wait: float | None = 10.0
    ) -> AsyncGenerator[LiveEvent, None]:
        """Yield the answer to a request while it is written, by whichever process.

        To resume, pass the `cursor` of the last event as `after`: nothing is missing, nothing comes
        twice. Waits up to `wait` seconds (None: as long as it takes) for the answer to be begun.
        The last event is an `end`. Streams are kept for an hour; then the end comes at once, with
        the stored message.
        """
        from stateward.state.live_feed import LiveReader

        reader = LiveReader(self.handle, check_id(request, "a request"), after)
        return reader.events(None if wait is None else check_span(wait, "wait"))

    async def stop(self, request: str) -> bool:
        """Stop an answer that is being written live, wherever that is.

        Readers get nothing that is written from now on, and the writer `TurnStopped`. Returns
        whether there was such an answer.
        """
        from stateward.state.live_writer import stop_live

        return await stop_live(self.handle, check_id(request, "a request"))

    async def lives(self) -> AsyncIterator[LiveAnswer]:
        """List the answers that are written live, and those that were within the last hour."""
        from stateward.state.live_feed import list_live

        async for answer in list_live(self.handle):
            yield answer

    async def replaced(self) -> AsyncIterator[Replaced]:
        """List what turns were stored instead of (`instead_of=`), oldest first."""
        from stateward.state.replacements import list_replaced

        async for replaced in list_replaced(self.handle):
            yield replaced
