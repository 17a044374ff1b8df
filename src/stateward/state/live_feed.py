"""Reading a live answer while it is written, from any replica, and resuming behind any event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

from stateward.errors import KeyReusedError
from stateward.kinds import STREAM, effect_parts, effects_of, stream_of
from stateward.layers.redelivery import search_for
from stateward.ops import (
    Append,
    Commit,
    Conflict,
    Drop,
    Entry,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    KeyReused,
    List,
    Log,
    SetHead,
    Unheld,
    Write,
)
from stateward.records import Cursor
from stateward.state.first_append import first_append
from stateward.state.handle import Handle
from stateward.state.refusals import refuse
from stateward.state.scope import Scope
from stateward.state.stream_record import (
    DONE,
    INTERRUPTED,
    POLL_SECONDS,
    STREAMING,
    WHILE_STREAMING,
    LiveAnswer,
    LiveCursor,
    LiveEvent,
    ended,
    live_answer,
    read_entry,
)

SILENCE = 1.0  # seconds without an event after which a reader asks whether the writer is alive


class LiveReader:
    """One reader of one stream."""

    def __init__(self, thread: Handle, key: str, after: str | None) -> None:
        self._thread = thread
        self._key = key
        self._stream = Handle(thread.scope, stream_of(thread.entity, key), thread.owner)
        self._at = LiveCursor.of(after)
        self._world = thread.scope.world
        self._ask_at = self._world.monotonic() + SILENCE  # whether the writer is alive

    async def events(self, wait: float | None) -> AsyncGenerator[LiveEvent, None]:
        """Yield what comes after the cursor; waits so long for the answer to be begun."""
        world = self._world
        until = None if wait is None else world.monotonic() + wait
        self._ask_at = world.monotonic()
        while True:
            fetched = await self._look()
            head, silent = fetched.head, world.monotonic() >= self._ask_at
            for event in await self._events(fetched):
                yield event
                if event.kind == "end":
                    return
            if fetched.entries:
                self._ask_at = world.monotonic() + SILENCE
                continue
            if head.exists and head.status != STREAMING:  # resumed behind the last entry
                yield self._end(head.status, await self._stored())
                return
            if silent and not head.exists:
                self._ask_at = world.monotonic() + SILENCE
                message = await self._stored()
                if message is not None or (until is not None and world.monotonic() >= until):
                    yield self._end("absent" if message is None else DONE, message)
                    return
            elif silent:
                self._ask_at = world.monotonic() + await settle(self._thread, self._key)
            # All readers of a process look in the same moment: their reads share a round trip.
            left = POLL_SECONDS - world.monotonic() % POLL_SECONDS
            await world.pause(left if left > POLL_SECONDS / 10 else left + POLL_SECONDS)

    async def _look(self) -> Fetched:
        at = self._at.entry
        page = self._thread.scope.capabilities.page
        fetched = await self._stream.fetch(
            Log(at.version, None, page, stamp=at.stamp, details=True)
        )
        if fetched.reset and fetched.head.exists:  # it has expired, and was begun again
            self._at = LiveCursor()
            fetched = await self._stream.fetch(Log(first=page, details=True))
        return fetched

    async def _events(self, fetched: Fetched) -> list[LiveEvent]:
        events: list[LiveEvent] = []
        for entry in fetched.entries:
            before, event = self._at.entry, self._event(entry)
            if event.kind != "end":
                events.append(event)
            elif entry.seq == fetched.head.version:  # else another delivery has begun since
                message = await self._stored()
                begun = read_entry(entry.body).repeated
                if message is not None and begun:
                    if before.version < begun:  # what was read is of an earlier delivery
                        self._at = LiveCursor(self._at.entry)
                        # Not behind the end: whoever resumes here has all of the text to come.
                        events.append(LiveEvent("begin", str(LiveCursor(before))))
                    events += self._rest(message)
                events.append(self._end(event.status, message))
        return events

    def _end(self, status: str, message: dict[str, Any] | None) -> LiveEvent:
        if message is not None and status == INTERRUPTED:
            status = DONE  # stored by its writer after all, or by another delivery
        return LiveEvent("end", str(self._at), status=status, message=message)  # type: ignore[arg-type]

    def _event(self, entry: Entry) -> LiveEvent:
        read, place = read_entry(entry.body), Cursor(entry.seq, entry.stamp)
        characters = 0 if read.begins else self._at.characters + len(read.text)
        self._at = LiveCursor(place, characters)
        cursor = str(self._at)
        if read.begins:
            return LiveEvent("begin", cursor)
        if read.ends:
            return LiveEvent("end", cursor, status=read.ends)
        return LiveEvent("delta", cursor, read.text, read.parts, read.late)

    def _rest(self, message: dict[str, Any]) -> list[LiveEvent]:
        """Return the text of a stored answer behind the cursor: it was removed from the stream."""
        text = str(message.get("content"))[self._at.characters :]  # edited since, perhaps
        if not text:
            return []
        self._at = LiveCursor(self._at.entry, self._at.characters + len(text))
        return [LiveEvent("delta", str(self._at), text, (text,))]

    async def _stored(self) -> dict[str, Any] | None:
        """Return the answer that is stored in the thread."""
        handle, key = self._thread, self._key
        search = search_for(key, handle.entity, handle.owner, handle.scope.world.new_op())
        (outcome,) = await handle.scope.execute((search,))
        if type(outcome) is KeyReused:
            with suppress(KeyReusedError):  # it was removed since
                return (await first_append(handle, outcome)).messages[-1]
            return None
        if type(outcome) is not Conflict:
            refuse(outcome, handle.entity)
        return None


async def settle(thread: Handle, key: str) -> float:
    """End the stream of a writer that has died; return when to look again, in seconds.

    Its answer may be stored all the same.
    """
    stream = Handle(thread.scope, stream_of(thread.entity, key), thread.owner)
    checks = (Unheld(), WHILE_STREAMING)
    search = search_for(key, thread.entity, thread.owner, thread.scope.world.new_op())
    (answered,) = await thread.scope.execute((search,))
    status = DONE if type(answered) is KeyReused else INTERRUPTED
    end = ended(status)  # type: ignore[arg-type]
    outcome = await stream.commit((Append((end,)), SetHead(status=status)), checks)
    return outcome.remaining + POLL_SECONDS if isinstance(outcome, Held) else SILENCE


async def list_live(thread: Handle) -> AsyncIterator[LiveAnswer]:
    """Yield the answers that are written live in a thread, and those that were within the hour."""
    scope = thread.scope
    await thread.fetch()  # raises for a thread of another user
    wanted = List(scope.namespace, STREAM, thread.owner, effects_of(thread.entity))
    async for page in scope.pages(wanted):
        for each in page.entities:
            yield live_answer(each)


async def find_live(thread: Handle, key: str) -> LiveAnswer | None:
    """Return the answer to a request as `list_live` has it; None: it is none that was live."""
    stream = Handle(thread.scope, stream_of(thread.entity, key), thread.owner)
    # The thread of another user is refused whether there is such a stream or not.
    reads = [Fetch(each.entity, each.owner) for each in (thread, stream)]
    head = Head()
    for outcome in await thread.scope.execute(reads):
        if type(outcome) is not Fetched:
            refuse(outcome, thread.entity)
        head = outcome.head
    return live_answer(Found(stream.entity, head)) if head.exists else None


async def settle_streams(scope: Scope) -> None:
    """End all streams whose writers have died."""
    wanted = List(scope.namespace, STREAM, status=STREAMING)
    streams = [each async for page in scope.pages(wanted) for each in page.entities]
    for each in streams:
        parts = effect_parts(each.entity.id)
        if parts is not None:
            thread = Handle(scope, scope.entity(parts[0], parts[1]), each.head.owner)
            await settle(thread, each.head.label)


async def drop_streams(thread: Handle) -> None:
    """Remove the streams of a thread that was deleted."""
    await _change_each(thread, Drop())


async def give_streams(thread: Handle, user: str) -> None:
    """Give the streams of a thread that had no user to the user it has now."""
    await _change_each(thread, SetHead(owner=user), owner="")


async def _change_each(thread: Handle, write: Write, owner: str | None = None) -> None:
    scope = thread.scope
    wanted = List(scope.namespace, STREAM, owner=owner, prefix=effects_of(thread.entity))
    async for page in scope.pages(wanted):
        new_op = scope.world.new_op
        each = [Commit(e.entity, new_op(), (write,), (), owner) for e in page.entities]
        if each:
            await scope.execute(each)
