"""The methods of a store that lead to its contents: conversations, documents and journals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from stateward.codec import Retention, check_span, seconds
from stateward.context.compaction import Compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds, Oversized
from stateward.owner import UNSAID, Unsaid, Whose, owner_of
from stateward.records import Cursor, EntityChange, ThreadInfo
from stateward.state.about import Labels
from stateward.state.layered import Sections
from stateward.state.thread_list import list_threads
from stateward.state.threads import Thread
from stateward.state.users import Shared, User
from stateward.state.window_record import Context, Knowledge

# What a conversation does not need is imported by the method that does: half of all modules.
if TYPE_CHECKING:
    from stateward.state.journals import Journal
    from stateward.state.recent import Order


class StoreContents(Sections):
    """Conversations, users and their documents, shared documents and journals."""

    def thread(
        self, id: str, user: Whose = UNSAID, *, retain: Retention | Unsaid = UNSAID
    ) -> Thread:
        """Return a handle on a conversation.

        With `user`, it is created with that owner, and access to another user's raises
        `NotYoursError`. With `user=None`, it is created without an owner, and access to a user's
        raises. If `user` is left out, the owner is not checked, for code that serves no user. The
        same holds for every method with `user`.

        `retain` is how long it is kept after its last message (None: for ever). The next append
        sets it, even on an existing thread, unless it is pinned. By default the store's setting
        applies.
        """
        if retain is UNSAID:
            return Thread(self._threads, id, owner_of(user), self._retain)
        return Thread(self._threads, id, owner_of(user), seconds(retain), sets_retain=True)

    async def threads(
        self,
        user: Whose = UNSAID,
        *,
        prefix: str = "",
        reverse: bool = False,
        labels: Labels | None = None,
        archived: bool | None = False,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ThreadInfo]:
        """List the conversations of a user, those without an owner (None), or by default all.

        Ordered by id, or with `order="recent"` most recently changed first: exact on each page of
        `limit`, and to the minute across pages. A page is one round trip, however many there are.
        `before` is the `cursor` of the last one shown, and continues after it. `labels` selects
        those with all of these labels; others are read and skipped. Archived ones are left out,
        unless `archived` is True (only those) or None (all).
        """
        async for info in list_threads(
            self._threads, owner_of(user), prefix, reverse, labels, archived, order, before, limit
        ):
            yield info

    def user(self, id: str) -> User:
        """Return a handle on a user's documents."""
        return User(self._users, id, self._layered.scopes)

    async def users(self) -> AsyncIterator[str]:
        """List the ids of all users who own anything here: documents, conversations, tasks …"""
        from stateward.state.tallies import list_owners

        async for user in list_owners(self._layered.scopes):
            yield user

    async def counts(self, user: Whose = UNSAID) -> dict[str, int]:
        """Count threads, workflows, tasks … by kind: of a user, without an owner (None), or all.

        What has expired counts until it is swept.
        """
        from stateward.state.tallies import count_kinds

        return await count_kinds(self._layered.scopes, owner_of(user))

    def shared(self, id: str, user: Whose = UNSAID) -> Shared:
        """Return a handle on documents that agents share.

        With `user` they are created with that owner, and exported and erased with the user.
        """
        return Shared(self._scope, id, owner_of(user))

    def journal(
        self, id: str, user: Whose = UNSAID, *, retain: Retention | Unsaid = UNSAID
    ) -> Journal:
        """Return an event-sourced log, which agents can also use to publish what they did.

        Kept for ever, or for `retain` after its last event, set by the next append.
        """
        from stateward.state.journals import Journal

        if retain is UNSAID:
            return Journal(self._scope, id, owner_of(user), None)
        return Journal(self._scope, id, owner_of(user), seconds(retain), sets_retain=True)

    async def context(
        self,
        *,
        user: str,
        thread: str,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        exact: bool = False,
        entries: bool = False,
    ) -> Context:
        """Read a window of the thread, the user's documents and unfinished workflows together.

        One round trip, whatever the length of the history (a window limited by turns or tokens may
        take more); in a layered store one to each engine, concurrently. The window is that of
        `Thread.load`: by default the last 20 messages. Only the first hundred workflows by id are
        returned; `workflows` lists all.
        """
        if last is None and turns is None and max_tokens is None and summarize is None:
            last = 20
        bounds = Bounds.of(last, turns, max_tokens, count, oversized, exact)
        assert self._threads.context is not None
        return await self._threads.context(user, thread, bounds, summarize, entries)

    async def knew(
        self, thread: str, version: int | str | Cursor, *, user: Whose = UNSAID
    ) -> Knowledge | None:
        """Return what an agent was given when it wrote the turn with this message.

        `version` is that of any message of the turn, e.g. `appended.version`. Everything returned
        is what was given then, byte for byte; what was changed or removed since, or is no longer
        kept, is listed in `gone`. None: the turn was stored without a receipt, see `saw=` of
        `Thread.append`. A message that does not exist raises `InvalidInput`. The receipts of turns
        that a fork shares are stored with its origin: `NotKept` if that is gone.
        """
        from stateward.state.knowledge import knew

        handle = Thread(self._threads, thread, owner_of(user), self._retain).handle
        return await knew(handle, self._users, self._scope, Cursor.of(version))

    async def changes(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        after: str | None = None,
        wait: bool = True,
        poll: float = 1.0,
    ) -> AsyncIterator[EntityChange]:
        """Yield entities that have changed: each at least once after its last change.

        `kinds` are kinds such as "thread", "user" or "workflow"; None: all. `after` is the `cursor`
        of a change: every entity that changed since is yielded, and some again; without it,
        everything is. A change has the current state of the entity, not each of its changes; for
        one entity, never an older state after a newer one. At the end it polls every `poll`
        seconds; with `wait=False` it ends. Deletions are not reported.
        """
        from stateward.state.changes import changes_after

        poll = check_span(poll, "poll")
        async for change in changes_after(self._layered, kinds, after, wait=wait, poll=poll):
            yield change
