"""Conversations: append-only logs of messages, kept for a while, trimmed only when read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from holdfast.codec import check_count, check_id, decode, decode_lines, encode, encode_messages
from holdfast.context.window import last_turns
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.layers.holding import Holding
from holdfast.layers.replay import LATE
from holdfast.ops import (
    Absent,
    Append,
    Applied,
    Check,
    Commit,
    Drop,
    Duplicate,
    Fence,
    Fetch,
    Fetched,
    Lease,
    Log,
    LogAt,
    NotYours,
    Put,
    SetHead,
    Write,
)
from holdfast.records import Appended, Change, Cursor, Late, Window, moment
from holdfast.state.documents import DocumentHandle
from holdfast.state.feeds import entries_after, reset
from holdfast.state.locks import Lock
from holdfast.state.scope import OnAppend, Scope, stored

logger = logging.getLogger("holdfast.threads")

VARS = "vars"
FORKED_FROM = "forked_from"

Message = dict[str, Any]
Place = int | str | Cursor | Window


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
        expect: Place | None = None,
        fence: Holding | Lease | None = None,
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
            scope.world.new_id(),
            (Append(encode_messages(messages, scope.limits), key),),
            () if expect is None and fence is None else self._checks(expect, fence),
            self._user,
            self._retain,
        )
        began = scope.world.now()  # what is erased from here on must stay erased
        try:
            outcome = (await scope.execute((commit,)))[0]
        except StoreUnavailable as error:
            if commit.checks or scope.suppress is None:
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

    def _checks(self, expect: Place | None, fence: Holding | Lease | None) -> tuple[Check, ...]:
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

    async def fork(self, *, to: str, at: Place | None = None) -> Thread:
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
        after: Place | None = None,
        upto: Place | None = None,
    ) -> Window:
        """The conversation, or the part of it that a prompt needs.

        `last` counts messages and `turns` turns, from the end (a turn starts at a user message);
        `after` and `upto` are versions or cursors. With nothing, all of it. A thread that
        does not exist is an empty window with `exists=False`; a store that does not answer
        raises `StoreUnavailable`, never an empty window.
        """
        last = None if last is None else check_count(last, "last")
        turns = None if turns is None else check_count(turns, "turns")
        if last is not None and turns is not None:
            raise InvalidInput("give last= (messages) or turns=, not both")
        since = Cursor(0) if after is None else _cursor(after)
        limit = None if upto is None else _cursor(upto).version
        page = self._scope.capabilities.page
        first_page = min(page, 4 * turns if turns is not None else (last or page))
        log = Log(since.version, limit, last=first_page, stamp=since.stamp)
        fetched = await self._scope.fetch(Fetch(self._entity, self._user, log))
        if fetched.reset:
            raise reset(self._entity)
        messages: list[Message] = decode_lines(fetched.lines) if fetched.count else []
        if fetched.count == first_page and (last is None or last > first_page):
            older = await self._older(messages, fetched, since.version, last, turns)
            if older is None:  # deleted and begun anew while we read: what is there now counts
                return await self.load(last=last, turns=turns, after=after, upto=upto)
            messages = older
        elif turns is not None:
            messages = last_turns(messages, turns) or messages
        head = fetched.head
        return Window(
            messages,
            head.version,
            head.exists,
            head.live - len(messages),
            Cursor(head.version, head.stamp or None),
            head.created,
            head.updated,
        )

    async def _older(
        self,
        messages: list[Message],
        fetched: Fetched,
        after: int,
        last: int | None,
        turns: int | None,
    ) -> list[Message] | None:
        """Go on backwards, page by page, until there is enough; others run between two pages.

        None if the conversation is not the same one any more.
        """
        pages = [messages]
        life = fetched.head.life
        page = self._scope.capabilities.page
        have = len(messages)
        while True:
            if turns is not None:
                enough = last_turns([m for part in reversed(pages) for m in part], turns)
                if enough is not None:
                    return enough
            size = page if last is None else min(page, last - have)
            before = fetched.first - 1
            if size == 0 or before <= after or not fetched.count:
                break
            await self._scope.world.pause(0)
            log = Log(after, before, last=size)
            fetched = await self._scope.fetch(Fetch(self._entity, self._user, log))
            if fetched.head.life != life or not fetched.head.exists:
                return None
            if fetched.count:
                pages.append(decode_lines(fetched.lines))
                have += fetched.count
        return [message for part in reversed(pages) for message in part]

    async def changes(self, after: Place = 0, *, follow: bool = True) -> AsyncIterator[Change]:
        """Every message after a place, in order, each exactly once, and then what comes.

        Resumable: keep `str(change.cursor)` and pass it as `after`. With `follow=False` it ends
        when it has caught up. Raises `Truncated` if messages it has not given were trimmed,
        and `Reset` if the history is no longer the one the cursor belongs to.
        """
        feed = entries_after(self._scope, self._entity, self._user, _cursor(after), follow=follow)
        async for entry in feed:
            cursor = Cursor(entry.seq, entry.stamp)
            yield Change(decode(entry.body), entry.seq, cursor, moment(entry.at), entry.key)


def _cursor(place: Place) -> Cursor:
    return place.cursor if isinstance(place, Window) else Cursor.of(place)
