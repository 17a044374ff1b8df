"""Conversations: append-only logs of messages, kept for a while, trimmed only when read."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from stateward.codec import check_id, decode, encode, encode_messages
from stateward.context.compaction import SUMMARY, Compaction, check_compaction, kept
from stateward.context.tokens import Count
from stateward.context.window import Bounds, Oversized
from stateward.errors import InvalidInput, NotLaidOut, StoreUnavailable
from stateward.layers.leases.held import HeldLease
from stateward.layers.outage.replay import LATE
from stateward.ops import (
    Absent,
    Append,
    Applied,
    Check,
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fetch,
    Lease,
    LogAt,
    NotYours,
    Put,
    Replace,
    SetHead,
    Value,
    Write,
)
from stateward.records import Appended, Change, Cursor, Late, Summary, Window, moment
from stateward.state.documents import DocumentHandle
from stateward.state.feeds import entries_after
from stateward.state.locks import Lock
from stateward.state.scope import OnAppend, Scope, stored
from stateward.state.summaries import compact, stored_summary
from stateward.state.windows import WindowRequest, read_window

logger = logging.getLogger("stateward.threads")

VARS = "vars"
FORKED_FROM = "forked_from"

Message = dict[str, Any]
Position = int | str | Cursor | Window


class Thread:
    """One conversation. Making a handle asks the store nothing."""

    def __init__(self, scope: Scope, id: str, user: str | None, retain: float | None) -> None:
        self._scope = scope
        self._entity = scope.entity("thread", id)
        self._user = None if user is None else check_id(user, "a user")
        self._retain = retain

    def __repr__(self) -> str:
        return f"Thread({self.id!r}, user={self._user!r})"

    @property
    def id(self) -> str:
        return self._entity.id

    @property
    def user(self) -> str | None:
        return self._user

    @property
    def vars(self) -> DocumentHandle:
        """The conversation's own variables (topic, title, …): one document that expires with it."""
        return DocumentHandle(
            self._scope, self._entity, VARS, owner=self._user, retain=self._retain
        )

    # --- writing --------------------------------------------------------------------

    async def append(
        self,
        *messages: Message,
        key: str | None = None,
        expect: Position | None = None,
        fence: HeldLease | Lease | None = None,
    ) -> Appended:
        """Add messages to the end, adjacent and in this order, all or none.

        `key` makes a repeated delivery harmless: the second append with the same key and
        messages is a `duplicate`, with other messages it raises `KeyReusedError`. `expect` is the
        version (or window) the messages were written for: if somebody else was faster, raises
        `StateConflictError`. `fence` is a lease on this thread: once it is lost, raises
        `LeaseLost`. If the store failed, an append with `expect` or `fence` raises
        `StoreUnavailable`, whose `applied` says whether the messages may have been stored all
        the same; a plain one is kept locally until the store answers again (`spilled`), or
        lost if there is no room (`dropped`), unless the policy says to raise.
        """
        if key is not None:
            check_id(key, "a key")
        scope = self._scope
        if scope.redact is not None:
            messages = tuple(map(scope.redact, messages))
        commit = Commit(
            self._entity,
            scope.world.new_op(),
            (Append(encode_messages(messages, scope.limits), key),),
            () if expect is None and fence is None else self._checks(expect, fence),
            self._user,
            self._retain,
        )
        began = scope.world.now()  # what is erased from here on must stay erased
        try:
            outcome = (await scope.execute((commit,)))[0]
        except StoreUnavailable as error:
            if commit.checks or scope.suppress is None or isinstance(error, NotLaidOut):
                raise
            return Appended(await scope.suppress(commit, began, error), 0, Cursor(0))
        if type(outcome) is Applied:
            if self._scope.on_append is not None:
                self._tell(self._scope.on_append, messages)
            cursor = Cursor(outcome.version, outcome.stamp)
            return Appended("stored", outcome.version, cursor)
        applied = stored(outcome, self._entity)
        assert isinstance(outcome, Duplicate)
        cursor = Cursor(applied.version, applied.stamp)
        if not outcome.own:
            return Appended("duplicate", applied.version, cursor)
        if self._scope.on_append is not None:
            self._tell(self._scope.on_append, messages)
        return Appended("stored", applied.version, cursor)

    def _tell(self, hook: OnAppend, messages: tuple[Message, ...]) -> None:
        """Call the hook on append. What it raises is logged: the messages are stored already.

        The repeats that it returns, if any, are counted as context breaks.
        """
        try:
            found = hook(self.id, self._user, messages)
            for repeat in found if isinstance(found, list) else ():
                self._scope.context_break(str(getattr(repeat, "kind", "other")))
        except Exception as error:
            logger.error(
                "on_append failed", extra={"thread_id": self.id, "error": type(error).__name__}
            )

    def _checks(
        self, expect: Position | None, fence: HeldLease | Lease | None
    ) -> tuple[Check, ...]:
        checks: list[Check] = []
        if fence is not None:
            checks.append(self._fence(fence))
        if expect is not None:
            place = _cursor(expect)
            checks.append(LogAt(place.version, place.stamp))
        return tuple(checks)

    def _fence(self, lease: Any) -> Fence:
        entity = getattr(lease, "entity", self._entity)
        token, nonce = getattr(lease, "token", None), getattr(lease, "nonce", None)
        if entity != self._entity or type(token) is not int or type(nonce) is not str:
            raise InvalidInput(
                f"the fence is no lease on the thread {self.id!r}: only a thread's own lease can "
                "guard it, because only that is checked together with the write"
            )
        return Fence(token, nonce)

    async def edit(self, changes: Mapping[int, Message | None]) -> None:
        """Rewrite single messages by their number in the thread, or remove them (None).

        Numbers are those of `changes()`; one that is not there is passed over. Versions stay. A
        summary that covers an edited message goes in the same commit: it may say what was removed.
        """
        if not changes or any(type(n) is not int or n < 1 for n in changes):
            raise InvalidInput("edit needs {number: message or None}, with numbers from 1")
        bodies: dict[int, str | None] = {
            number: None if new is None else encode_messages((new,), self._scope.limits)[0]
            for number, new in changes.items()
        }
        while True:
            fetched = await self._scope.fetch(Fetch(self._entity, self._user, documents=(SUMMARY,)))
            if not fetched.head.exists:
                return
            value = fetched.documents.get(SUMMARY)
            summary = kept(value, fetched.head)
            writes: tuple[Write, ...] = (Replace(bodies),)
            checks: list[Check] = [LogAt(fetched.head.version, fetched.head.stamp)]
            covered = max(summary.upto, summary.making)
            if value is None or (min(bodies) > covered and None not in bodies.values()):
                checks.append(_document_at(SUMMARY, value))
            else:
                writes = (*writes, Delete(SUMMARY))
            outcome = await self._scope.commit(
                self._entity, writes, tuple(checks), owner=self._user
            )
            if not isinstance(outcome, Conflict):
                stored(outcome, self._entity)
                self._scope.plain_beginnings.pop(self._entity, None)
                return

    async def delete(self) -> None:
        """Remove the conversation with its variables; nothing happens if there is none."""
        outcome = await self._scope.commit(self._entity, (Drop(),), owner=self._user)
        stored(outcome, self._entity)

    async def claim(self, *, user: str) -> Thread:
        """Give a conversation that was begun without a user to one, and return their handle.

        Claiming it again for the same user is fine; for another, raises `NotYoursError`.
        """
        check_id(user, "a user")
        outcome = await self._scope.commit(
            self._entity, (SetHead(owner=user),), owner="", retain=self._retain
        )
        if isinstance(outcome, NotYours):
            await self._scope.fetch(Fetch(self._entity, owner=user))  # theirs already, or raises
        else:
            stored(outcome, self._entity)
        return Thread(self._scope, self.id, user, self._retain)

    async def fork(self, *, to: str, at: Position | None = None) -> Thread:
        """Begin a new conversation `to` with what this one held at `at` (default: now).

        The whole beginning appears at once. Raises `StateConflictError` if `to` exists.
        """
        window = await self.load(upto=None if at is None else _cursor(at).version)
        if not window.exists:
            raise InvalidInput(f"the thread {self.id!r} does not exist; there is nothing to fork")
        version = window.version if at is None else _cursor(at).version
        variables = await self.vars.get()
        fork = Thread(self._scope, to, self._user, self._retain)
        origin = {"thread": self.id, "version": version}
        writes: list[Write] = [Put(FORKED_FROM, encode(origin, "the origin"))]
        if variables.exists:
            writes.append(Put(VARS, encode(variables.value, "the variables")))
        if window.messages:
            writes.append(Append(encode_messages(window.messages, self._scope.limits)))
        outcome = await self._scope.commit(
            fork._entity, tuple(writes), (Absent(),), owner=self._user, retain=self._retain
        )
        stored(outcome, fork._entity)
        return fork

    def lead(self, *, ttl: float = 30.0, wait: float | None = None) -> Lock:
        """The right to lead this conversation: `async with thread.lead() as lease`.

        One replica at a time has it. Append with `fence=lease`: once another leads, that is
        refused with `LeaseLost`. Waits up to `wait` seconds (None: as long as it takes).
        """
        return Lock(
            self._scope,
            self._entity,
            ttl=ttl,
            wait=wait,
            owner=self._user,
            retain=self._retain,
        )

    # --- reading --------------------------------------------------------------------

    async def late(self) -> list[Late]:
        """The turns that reached the store after newer ones, oldest first; the last hundred.

        They were kept locally during an outage. Messages are never put into another order.
        """
        fetched = await self._scope.fetch(Fetch(self._entity, self._user, documents=(LATE,)))
        marks = fetched.documents.get(LATE)
        if marks is None:
            return []
        turns = decode(marks.json)["turns"]
        return [Late(t["first"], t["last"], moment(t["written"])) for t in turns]

    async def load(
        self,
        *,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        after: Position | None = None,
        upto: Position | None = None,
    ) -> Window:
        """The conversation, or the part of it that a prompt needs.

        `last` counts messages, `turns` turns (a turn starts at a user message) and `max_tokens`
        tokens, by `count` or an estimate; none is exceeded. A window begins with the system
        messages that the thread begins with, then come whole turns: a tool call is never without
        its results. If the newest turn alone is too long, its question and newest steps come; if
        not even those fit, raises `WindowTooSmall`, or cuts their texts with
        `oversized="shorten"`. `summarize` puts a summary in the place of older turns.

        `after` and `upto` are versions or cursors. With nothing, all of it. A thread that
        does not exist is an empty window with `exists=False`; a store that does not answer
        raises `StoreUnavailable`, never an empty window.
        """
        wanted = WindowRequest(
            self._entity,
            self._user,
            Bounds.of(last, turns, max_tokens, count, oversized),
            Cursor(0) if after is None else _cursor(after),
            None if upto is None else _cursor(upto).version,
            check_compaction(summarize, after, upto),
        )
        return await read_window(self._scope, wanted)

    async def summary(self) -> Summary | None:
        """The summary of older turns, if one was made."""
        return await stored_summary(self._scope, self._entity, self._user)

    async def compact(self, compaction: Compaction) -> Summary | None:
        """Summarise now all but the newest `compaction.keep` messages, and wait for it.

        Returns the summary that is there then; None if there was nothing to summarise. If another
        replica is making one, it is not made twice. What `summarize` raises is raised; nothing is
        stored then, and the conversation stays as it is.
        """
        return await compact(self._scope, self._entity, self._user, compaction)

    async def changes(
        self, after: Position = 0, *, follow: bool = True
    ) -> AsyncGenerator[Change, None]:
        """Every message after a place, in order, each exactly once, and then what comes.

        Resumable: keep `str(change.cursor)` and pass it as `after`. With `follow=False` it ends
        when it has caught up. Raises `Truncated` if messages it has not given were trimmed,
        and `Reset` if the history is no longer the one the cursor belongs to.
        """
        feed = entries_after(self._scope, self._entity, self._user, _cursor(after), follow=follow)
        async for entry in feed:
            cursor = Cursor(entry.seq, entry.stamp)
            yield Change(decode(entry.body), entry.seq, cursor, moment(entry.at), entry.key)


def _document_at(name: str, value: Value | None) -> DocumentAt:
    return DocumentAt(name, 0) if value is None else DocumentAt(name, value.version, value.stamp)


def _cursor(place: Position) -> Cursor:
    return place.cursor if isinstance(place, Window) else Cursor.of(place)
