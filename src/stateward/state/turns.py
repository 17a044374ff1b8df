"""A turn: one request on a conversation, answered once, however often it is delivered.

The append under the request's key decides: of several deliveries the first one to store counts, and
the others get the messages it stored. The lease of the request only keeps a second delivery from
asking the model while the first is still waiting for it; the lease is renewed beside the block, and
losing it does not end the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from stateward.codec import AnyMessage, check_id, check_span, check_ttl, decode
from stateward.errors import ConversationDeletedError, InvalidInput, LeaseHeld, StoreUnavailable
from stateward.kinds import turn_of
from stateward.layers.gather import gather
from stateward.layers.leases.held import HeldLease
from stateward.layers.redelivery import search_for
from stateward.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    Conflict,
    Duplicate,
    Held,
    KeyReused,
    Lease,
    LogAt,
    Outcome,
    Release,
    Write,
)
from stateward.records import Appended, Cursor
from stateward.state.first_append import first_append
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.live_writer import LiveWriter
from stateward.state.receipts import UNREAD, life_of
from stateward.state.refusals import refuse, stored
from stateward.state.turn_question import TurnQuestion, append_turn
from stateward.state.window_record import Context, Window
from stateward.state.window_request import WindowRequest
from stateward.state.windows import read_window

Message = dict[str, Any]

RETAIN = 60.0  # seconds after which the lease of a request is forgotten
FIRST_ENTRIES = 8  # enough to read most turns back at once


class Turn:
    """One request to answer. `async with` waits for the right to answer it, if necessary."""

    def __init__(
        self,
        handle: Handle,
        key: str,
        request: WindowRequest,
        *,
        context: bool,
        alone: bool,
        ttl: float,
        wait: float | None,
        question: AnyMessage | None = None,
        instead_of: int | None = None,
        live: bool = False,
    ) -> None:
        self.key = check_id(key, "a key")
        self.known = True
        self.window: Window | None = None
        self.context: Context | None = None
        self._handle = handle
        self._leases = handle.scope.leases
        self._request = request
        self._with_context = context
        self._alone = alone
        self._ttl = check_ttl(ttl)
        self._wait = None if wait is None else check_span(wait, "wait")
        self._entered = self._open = False
        self._fresh = False  # no delivery has claimed the request before
        self._held: HeldLease | None = None
        self._first: Appended | None = None  # stored under the key
        self._is_ours = False
        self._reply: Message | None = None
        self._stores = self._given_up = False  # `store` was called, or `give_up`
        self._unawaited: Coroutine[Any, Any, Appended] | None = None
        self._instead_of = instead_of
        self._live: LiveWriter | None = None
        if live:
            self._live = LiveWriter(handle, key, ttl=ttl, wait=wait)
        self._question: TurnQuestion | None = None
        if question is not None:
            self._question = TurnQuestion(handle, key, question, alone=alone)
        if context and not handle.owner:
            raise InvalidInput("context=True is for a user's thread: store.thread(id, user=...)")

    def __repr__(self) -> str:
        return f"Turn({self.key!r} of {self._handle.entity.id!r}, known={self.known})"

    # --- what is known --------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """The window to send to the model, and then the `question` of the turn.

        Without the window if the store could not be read.
        """
        messages = [] if self.window is None else self.window.messages
        asked = self._question
        return messages if asked is None else [*messages, *asked.earlier, asked.message]

    @property
    def stored(self) -> list[Message]:
        """The messages stored under the key, possibly by another delivery."""
        return [] if self._first is None else list(self._first.messages)

    @property
    def answer(self) -> Message | None:
        """The last stored message; None if the request has not been answered yet."""
        return None if self._first is None else self._first.messages[-1]

    @property
    def reply(self) -> Message:
        """The answer: as stored, or as passed to `store` if there was no room to spill it.

        Raises `InvalidInput` before `store`, while the request has no answer.
        """
        reply = self.answer or self._reply
        if reply is None:
            raise InvalidInput(f"the request {self.key!r} has no answer yet: await turn.store(...)")
        return reply

    # --- live -----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text that was written so far, of all that was passed to `write`."""
        return self._writer.text

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped the answer: `write` raises from now on."""
        return self._writer.stopped

    async def write(self, part: Any) -> None:
        """Write a part of the answer, for readers of `thread.live`: text, or any JSON value.

        It is readable within 50 ms; the first part at once. Raises `TurnStopped` if somebody has
        stopped the answer. Raises nothing if the store fails: what was written is kept, and
        readers get it later.
        """
        writer = self._writer
        if not self._open or self._first is not None:
            raise InvalidInput("a live answer is written in the block of its turn, before store")
        await writer.write(part)

    @property
    def _writer(self) -> LiveWriter:
        if self._live is None:
            raise InvalidInput("only a live turn is written: thread.turn(..., live=True)")
        return self._live

    # --- the block ------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._entered:
            raise InvalidInput("a turn is entered once; call thread.turn(...) for each delivery")
        self._entered = self._open = True
        try:
            # In blocking code the last call runs on the caller's own thread, which gets the lease.
            await self._ask(self._read, self._claim)
            if self.known and self._first is None and not self._fresh:
                # An earlier delivery may have stored its answer after our search.
                await self._ask(self._read, self._look)
            if not self.known and self._first is None:
                self._first = self._kept_here()
            if self._question is not None and self._first is None:
                await self._spared(partial(self._question.ask, life_of(self.window)))
            if self._live is not None and self._first is None:
                await self._spared(self._live.open)
            if self._first is not None:
                await self._end(release=self._alone)
        except BaseException:
            await self._end(release=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        if self._live is not None:
            await self._live.end(None)
        await self._end(release=True)
        unawaited, self._unawaited = self._unawaited, None
        if unawaited is not None:
            unawaited.close()  # async only
            if kind is None:
                raise InvalidInput(
                    f"turn.store(...) was called without await: nothing of the request "
                    f"{self.key!r} was stored. Write: await turn.store(...)"
                )
        if kind is None and self._first is None and not (self._stores or self._given_up):
            raise InvalidInput(
                f"the block of the turn {self.key!r} has ended without an answer: await "
                "turn.store(...) in it, raise an error, or call turn.give_up() if there is none. "
                "The request can be delivered again"
            )

    def give_up(self) -> None:
        """Let the block end without `store`: the request stays unanswered."""
        self._given_up = True

    def store(
        self,
        *messages: AnyMessage,
        expect: int | str | Cursor | Window | None = None,
        instead_of: int | None = None,
    ) -> Coroutine[Any, Any, Appended]:
        """Store the outcome of the request: its question, its answer, and what lies between.

        Adjacent and in this order, all or none. If another delivery was first, nothing is stored,
        the status is `duplicate`, and `answer` and `stored` are what it stored. `expect` is as for
        `append`, e.g. `turn.window`: raises `StateConflictError` if another request was stored
        since. If the store fails, the messages are spilled (`spilled`) like any plain append,
        unless there is `expect`. In a turn that is `alone`, raises `LeaseLost` if another process
        leads now. If the conversation was deleted since the block was entered, raises
        `ConversationDeletedError`: what was deleted does not come back. A receipt of what the turn
        was given is stored with it, see `store.knew`; also if that was nothing, because the store
        could not be read.

        The `question` of the turn comes first, without being passed. `instead_of` is the number of
        a message, by default that of the turn: this turn is stored instead of it and of all that
        come after it, in one commit, and they can be read with `thread.replaced()`. Then, as with
        `expect`, a store that fails raises `StoreUnavailable`.
        """
        self._stores = True
        # sync only: return self._store(messages, expect, instead_of)
        # async only: begin
        self._unawaited = storing = self._store(messages, expect, instead_of)
        return storing
        # async only: end

    async def _store(
        self,
        messages: tuple[AnyMessage, ...],
        expect: int | str | Cursor | Window | None,
        instead_of: int | None,
    ) -> Appended:
        self._unawaited = None
        if not self._open:
            raise InvalidInput("a turn is stored within its block: async with thread.turn(...)")
        if self._is_ours:
            raise InvalidInput(
                "this turn is stored already; pass all its messages in one call: "
                "store(question, answer)"
            )
        if self._first is not None:
            return self._first
        checks: tuple[Check, ...] = ()
        writes: tuple[Write, ...] = ()
        if self._alone and self._held is not None:
            checks = (self._held.fence,)
            writes = (Release(self._held.token, self._held.nonce),)
        if expect is not None:
            at = expect.cursor if isinstance(expect, Window) else Cursor.of(expect)
            checks = (*checks, LogAt(at.version, at.stamp))
        try:
            appended = await append_turn(
                self._handle,
                self.key,
                self._question,
                messages,
                checks,
                writes,
                keep=expect is None,
                saw=self.context or self.window or UNREAD,
                instead_of=self._instead_of if instead_of is None else instead_of,
            )
        except ConversationDeletedError:
            if self._live is not None:
                await self._live.drop()
            raise
        self._reply = appended.messages[-1]
        if appended.status == "dropped":
            return appended
        self._first, self._is_ours = appended, appended.status != "duplicate"
        if self._live is not None:
            is_stored = appended.status in ("stored", "unreplicated", "duplicate")
            await self._live.end(self.reply, is_stored=is_stored)
        is_there = appended.status in ("stored", "unreplicated")
        if is_there or (appended.status == "duplicate" and not self._alone):
            await self._end(release=False)  # later deliveries find the answer, or the lease free
        return appended

    # --- entering -------------------------------------------------------------------

    async def _ask(self, *calls: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run calls concurrently; without the store, the turn continues without their answers."""
        await gather([partial(self._spared, call) for call in calls])

    async def _spared(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await call()
        except StoreUnavailable:
            if self._handle.scope.stack.policy.threads == "raise":
                raise
            self.known = False

    async def _read(self) -> None:
        scope, request = self._handle.scope, self._request
        if not self._with_context:
            self.window = await read_window(scope, request)
            return
        assert scope.context is not None
        assert request.owner is not None
        thread = request.entity.id
        self.context = await scope.context(
            request.owner, thread, request.bounds, request.compaction, request.entries
        )
        self.window = self.context.thread.answered
        self.context = replace(self.context, thread=self.window)

    async def _claim(self) -> None:
        """Wait for the lease, or for the answer of its holder."""
        world = self._handle.scope.world
        acquire = Acquire(world.new_id(), self._ttl, world.name())
        waiting = LeaseWait(world, self._wait)
        self._fresh = not self._alone
        while True:
            asked, commit = world.monotonic(), self._claim_by(acquire)
            if self._alone:
                claimed, *searched = await self._leases.claim_among(commit, unreplicated=True)
            else:
                # With the deadline of a read: slow writes must not delay the answer.
                deadline = asked + self._handle.scope.stack.policy.read_timeout
                claimed, *searched = await self._leases.claim_among(
                    commit, self._search(), deadline=deadline, unreplicated=True
                )
            if isinstance(claimed, Applied | Duplicate):
                applied = stored(claimed, commit.entity)
                assert applied.lease is not None
                self._hold(applied.lease, asked)
                self._fresh = self._fresh and applied.created
            if searched:
                await self._take_first(searched[0])
            if self._held is not None or self._first is not None:
                return
            if not isinstance(claimed, Held):
                refuse(claimed, commit.entity)
            self._fresh = False
            await self._pause(waiting, claimed)

    def _claim_by(self, acquire: Acquire) -> Commit:
        handle, op = self._handle, self._handle.scope.world.new_op()
        if not self._alone:
            entity = turn_of(handle.entity, self.key)
            return Commit(entity, op, (acquire,), retain=max(RETAIN, 2 * self._ttl))
        retain = None if handle.retain is None else max(handle.retain, 2 * self._ttl)
        return Commit(handle.entity, op, (acquire,), (), handle.owner, retain)

    def _hold(self, lease: Lease, asked: float) -> None:
        entity = self._handle.entity if self._alone else turn_of(self._handle.entity, self.key)
        self._held = self._leases.hold(entity, lease, self._ttl, asked)
        self._held.keep()

    async def _pause(self, waiting: LeaseWait, held: Held) -> None:
        try:
            await waiting.pause(held, self._handle.entity)
        except LeaseHeld as error:
            what = "another request on" if self._alone else f"the request {self.key!r} on"
            raise LeaseHeld(
                f"{what} the thread {self._handle.entity.id!r} is still being answered by "
                f"{error.holder!r}; deliver it again in a while",
                remaining=error.remaining,
                holder=error.holder,
            ) from None

    def _search(self) -> Commit:
        handle = self._handle
        return search_for(self.key, handle.entity, handle.owner, handle.scope.world.new_op())

    async def _look(self) -> None:
        await self._take_first((await self._handle.scope.execute((self._search(),)))[0])

    async def _take_first(self, outcome: Outcome) -> None:
        """Read the messages stored under the key, if the search has found any."""
        if type(outcome) is KeyReused:
            self._first = await first_append(self._handle, outcome)
            if self._question is not None and not outcome.head.label:  # none was edited since
                self._question.check(self._first.messages)
        elif type(outcome) is not Conflict:
            refuse(outcome, self._handle.entity)

    def _kept_here(self) -> Appended | None:
        """Return the messages under the key that this process has spilled."""
        record = self._handle.scope.stack.backlog.find(self._handle.entity, self.key)
        if record is None:
            return None
        return Appended("duplicate", 0, Cursor(0), tuple(map(decode, record.bodies)))

    async def _end(self, *, release: bool) -> None:
        """Stop renewing the lease. Without `release` the append gave it back, or it expires."""
        held, self._held = self._held, None
        if held is None:
            return
        await held.leave(None, None, None)
        if release:
            await self._leases.release(held)
        else:
            self._leases.let_go(held)
