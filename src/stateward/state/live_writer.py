"""The writer of a live answer: what a model says, for readers on any replica, while it says it.

What is written is flushed every 50 ms, fenced by the lease of the stream. A flush is refused once
somebody has stopped the answer, so no reader gets anything after that. If the store fails, nothing
is raised: what was written is kept and flushed, marked as late, when the store answers again.
"""

from __future__ import annotations

import asyncio
import logging

# sync only: import threading
from typing import Any

from stateward.codec import encode
from stateward.errors import InvalidInput, StatewardError, StoreUnavailable, TurnStopped
from stateward.kinds import stream_of
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Drop,
    Duplicate,
    Held,
    Outcome,
    Release,
    SetHead,
    Trim,
    Write,
)
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.refusals import refuse, stored
from stateward.state.stream_record import (
    BEGIN,
    DONE,
    FLUSH_BYTES,
    FLUSH_SECONDS,
    INTERRUPTED,
    RETAIN,
    STOPPED,
    STREAMING,
    WHILE_STREAMING,
    ended,
    flushed,
)

LOOK_SECONDS = 0.2  # between two looks for a stop, while there is nothing to flush
MOST_UNFLUSHED = 64  # flushes' worth of text that is kept while the store does not answer

logger = logging.getLogger("stateward.streams")


class LiveWriter:
    """The stream of one delivery of a request."""

    def __init__(self, thread: Handle, key: str, *, ttl: float, wait: float | None) -> None:
        scope = thread.scope
        if scope.redact is not None:
            raise InvalidInput(
                "live=True stores an answer in parts, which redact= does not see; open a store "
                "without redact= for such turns, or do without live="
            )
        self.text = ""
        self.stopped = False
        self._scope = scope
        self._key = key
        self._handle = Handle(scope, stream_of(thread.entity, key), thread.owner, RETAIN)
        self._ttl = ttl
        self._wait = wait
        self._held: HeldLease | None = None
        self._parts: list[Any] = []
        self._size = 0
        self._unanswered: Commit | None = None  # a flush whose reply was lost
        self._version = self._begin = 0
        self._begun = self._late = self._all_text = self._open = False
        self._flushing = asyncio.Lock()

    # --- beginning ------------------------------------------------------------------

    async def open(self) -> None:
        """Begin the stream, in place of that of a delivery that has ended."""
        world, handle = self._scope.world, self._handle
        acquire = Acquire(world.new_id(), self._ttl, world.name())
        waiting = LeaseWait(world, self._wait)
        begin = (Append((BEGIN,)), acquire, SetHead(status=STREAMING, label=self._key))
        while True:
            asked = world.monotonic()
            commit = Commit(handle.entity, world.new_op(), begin, (), handle.owner, RETAIN)
            outcome = await self._scope.leases.claim(commit)
            if not isinstance(outcome, Held):
                break
            await waiting.pause(outcome, handle.entity)  # for a writer that has died
        applied = stored(outcome, handle.entity)
        assert applied.lease is not None
        self._version = self._begin = applied.version
        self._held = self._scope.leases.hold(handle.entity, applied.lease, self._ttl, asked)
        self._held.keep()
        self._open = self._all_text = True
        self._scope.background.start(self._run, self)

    # --- writing --------------------------------------------------------------------

    async def write(self, part: Any) -> None:
        """Add a part of the answer: text, or any JSON value."""
        if type(part) is str:
            self.text += part
            size = len(part)
        else:
            size = len(encode(part, "what is written"))
            self._all_text = False
        self._raise_if_stopped()
        if not self._open or (type(part) is str and not part):
            return
        self._parts.append(part)
        self._size += size
        if not self._begun or self._size >= FLUSH_BYTES:
            self._begun = True
            await self._flush()
            self._raise_if_stopped()

    def _raise_if_stopped(self) -> None:
        if self.stopped:
            raise TurnStopped(
                f"the answer to the request {self._key!r} was stopped; store what was written "
                "until then, if it is worth it: await turn.store(...)"
            )

    async def _run(self) -> None:
        """Flush what is written, and look for a stop while nothing is."""
        world = self._scope.world
        looked = world.monotonic()
        while self._open:
            await world.pause(FLUSH_SECONDS)
            try:
                if self._parts or self._unanswered is not None:
                    await self._flush()
                elif world.monotonic() - looked < LOOK_SECONDS:
                    continue
                elif self._open:
                    self._note((await self._handle.fetch()).head.status)
            except StatewardError as error:
                logger.info("stream_not_read", extra={"error": type(error).__name__})
            looked = world.monotonic()

    async def _flush(self, held: HeldLease | None = None) -> None:
        held = held or self._held
        async with self._flushing:
            while self._open and held and (self._parts or self._unanswered is not None):
                parts = self._parts
                commit = self._unanswered or self._next_flush(held)
                self._unanswered = commit
                try:
                    outcome = (await self._scope.execute((commit,)))[0]
                except StoreUnavailable as error:
                    self._late = True
                    if error.applied == "no" and parts is not self._parts:
                        self._parts, self._unanswered = [*parts, *self._parts], None
                    if self._size > MOST_UNFLUSHED * FLUSH_BYTES:
                        self._open = False  # readers get the answer when it is stored
                    return
                self._unanswered = None
                self._take(outcome)

    def _next_flush(self, held: HeldLease) -> Commit:
        parts, self._parts, self._size = self._parts, [], 0
        body, op = flushed(parts, late=self._late), self._scope.world.new_op()
        self._late = False
        checks = (held.fence, WHILE_STREAMING)
        return Commit(self._handle.entity, op, (Append((body,)),), checks, self._handle.owner)

    def _take(self, outcome: Outcome) -> None:
        if isinstance(outcome, Applied | Duplicate):
            self._version = stored(outcome, self._handle.entity).version
        elif isinstance(outcome, Conflict):
            self._note(outcome.head.status)
        else:
            self._open = False  # another delivery writes now, or everything was deleted

    def _note(self, status: str) -> None:
        """Note that the stream was ended by somebody else."""
        self.stopped = self.stopped or status == STOPPED
        self._open = self._open and status == STREAMING

    # --- ending ---------------------------------------------------------------------

    async def end(self, answer: Any, *, is_stored: bool = True) -> None:
        """End the stream with its answer, which may be `is_stored` in the thread; None: without.

        Text that the stored answer repeats is removed. Nothing is raised if the store fails: a
        reader that finds the lease over ends the stream.
        """
        held, self._held = self._held, None
        if held is None:
            return
        await held.leave(None, None, None)
        content = answer.get("content") if isinstance(answer, dict) else None
        repeated = is_stored and self._all_text and content == self.text
        try:
            if not repeated:
                await self._flush(held)
            async with self._flushing:
                streaming, self._open = self._open, False
                await self._end(held, DONE if answer else INTERRUPTED, streaming, repeated)
        except StatewardError as error:
            logger.info("stream_not_ended", extra={"error": type(error).__name__})
        finally:
            self._open = False
            self._scope.leases.let_go(held)

    async def _end(self, held: HeldLease, status: str, streaming: bool, repeated: bool) -> None:
        release = Release(held.token, held.nonce)
        if streaming:
            end = Append((ended(status, self._begin if repeated else 0),))  # type: ignore[arg-type]
            writes: tuple[Write, ...] = (end, SetHead(status=status), release)
            if repeated:
                writes = (*writes, Trim(self._version))
            outcome = await self._handle.commit(writes, (held.fence, WHILE_STREAMING))
            if not isinstance(outcome, Conflict):
                return
        await self._handle.commit((release,), (held.fence,))

    async def drop(self) -> None:
        """Remove the stream: its conversation was deleted."""
        self._open = False
        held, self._held = self._held, None
        if held is not None:
            await held.leave(None, None, None)
            self._scope.leases.let_go(held)
        try:
            await self._handle.commit((Drop(),))
        except StatewardError as error:
            logger.info("stream_not_ended", extra={"error": type(error).__name__})


async def stop_live(thread: Handle, key: str) -> bool:
    """Stop an answer that is being written; return whether there was one."""
    stream = Handle(thread.scope, stream_of(thread.entity, key), thread.owner)
    writes = (Append((ended("stopped"),)), SetHead(status=STOPPED))
    outcome = await stream.commit(writes, (WHILE_STREAMING,))
    if isinstance(outcome, Conflict):
        return False
    if not isinstance(outcome, Applied | Duplicate):
        refuse(outcome, stream.entity)
    return True
