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

from stateward.codec import AnyMessage, check_id, check_span, check_ttl, decode
from stateward.errors import InvalidInput, KeyReusedError, LeaseHeld, StoreUnavailable
from stateward.kinds import turn_of
from stateward.layers.gather import gather
from stateward.layers.leases.held import HeldLease
from stateward.layers.outage.answers import Suppressed
from stateward.layers.redelivery import search_for
from stateward.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    Conflict,
    Duplicate,
    Entry,
    Held,
    KeyReused,
    Lease,
    Log,
    LogAt,
    Outcome,
    Release,
    Write,
)
from stateward.records import Appended, Cursor
from stateward.state.appended import appended
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.receipts import UNREAD
from stateward.state.refusals import refuse, stored
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
        if context and not handle.owner:
            raise InvalidInput("context=True is for a user's thread: store.thread(id, user=...)")

    def __repr__(self) -> str:
        return f"Turn({self.key!r} of {self._handle.entity.id!r}, known={self.known})"

    # --- what is known --------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """The window to send to the model; empty if the store could not be read."""
        return [] if self.window is None else self.window.messages

    @property
    def stored(self) -> list[Message]:
        """The messages stored under the key, possibly by another delivery."""
        return [] if self._first is None else list(self._first.messages)

    @property
    def answer(self) -> Message | None:
        """The last stored message; None if the request has not been answered yet."""
        return None if self._first is None else self._first.messages[-1]

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
        await self._end(release=True)

    async def store(
        self, *messages: AnyMessage, expect: int | str | Cursor | Window | None = None
    ) -> Appended:
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
        """
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
        appended = await append_first(
            self._handle,
            messages,
            self.key,
            checks,
            writes,
            keep=expect is None,
            saw=self.context or self.window or UNREAD,
        )
        if appended.status == "dropped":
            return appended
        self._first, self._is_ours = appended, appended.status != "duplicate"
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
        self.window = self.context.thread

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


async def append_first(
    handle: Handle,
    messages: tuple[AnyMessage, ...],
    key: str,
    checks: tuple[Check, ...] = (),
    writes: tuple[Write, ...] = (),
    *,
    keep: bool,
    saw: Any = None,
) -> Appended:
    """Append, or return the messages stored first under the key."""
    redacted = handle.redacted(messages)
    outcome = await handle.append(
        redacted, key, checks, writes, keep=keep, takes_first=True, saw=saw
    )
    if type(outcome) is KeyReused:
        return await first_append(handle, outcome)
    if isinstance(outcome, Suppressed):
        return Appended(outcome.status, 0, Cursor(0), redacted)
    return appended(outcome, handle.entity, redacted)


async def first_append(handle: Handle, refused: KeyReused) -> Appended:
    """Read the messages stored first under the key; raises if they were removed since."""
    entries: list[Entry] = []
    upto, size = refused.version, FIRST_ENTRIES
    while True:
        page = (await handle.fetch(Log(upto=upto, last=size, details=True))).entries
        entries = [*page, *entries]
        if len(page) < size or page[0].stamp != entries[-1].stamp:
            break
        upto, size = page[0].seq - 1, handle.scope.capabilities.page
    if not entries or (entries[-1].seq, entries[-1].key) != (refused.version, refused.key):
        raise KeyReusedError(
            f"the request {refused.key!r} was answered in the thread {handle.entity.id!r} before, "
            "and the answer has been removed since; use a new key to ask again"
        )
    cursor = Cursor(refused.version, entries[-1].stamp)
    messages = tuple(decode(entry.body) for entry in entries if entry.stamp == cursor.stamp)
    return Appended("duplicate", refused.version, cursor, messages)
