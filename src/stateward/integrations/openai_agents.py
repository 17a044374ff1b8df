"""The OpenAI Agents SDK: `pip install 'stateward[openai-agents]'`.

    session = StatewardSession(store, "s-abc123", user="u-42")
    await Runner.run(agent, "Medium rare, please.", session=session)

A session is a Stateward thread: every item is one of its messages, kept as it was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import stateward
from stateward.codec import decode, decode_lines, encode_messages
from stateward.context.compaction import SUMMARY, Compaction, check_compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.layers.leases.held import HeldLease
from stateward.ops import Append, CommitsAt, Conflict, Delete, Fetch, Fetched, Log, Replace, Write
from stateward.options import Retention
from stateward.records import Cursor
from stateward.state.refusals import stored

try:
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "StatewardSession needs the OpenAI Agents SDK; install it with: "
        "pip install 'stateward[openai-agents]'"
    ) from error

Item = dict[str, Any]


class StatewardSession:
    """A conversation of the OpenAI Agents SDK, kept in a store. Making one asks the store nothing.

    Make one for each run: it remembers what the run has read, and with `conflict="raise"` an item
    that would land behind another run's items raises `StateConflictError` instead (with "append"
    it is added behind them). Items added while the store does not answer are kept locally as the
    store's policy says; reading then raises `StoreUnavailable`, never an empty history.

    `last`, `turns`, `max_tokens` (by `count`) and `summarize` bound what a run gets to see, as
    `Thread.load` does it: tool calls and their results stay together. The limits of the SDK itself
    (`session_settings`) count items and nothing else.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        store: Any,
        session_id: str,
        *,
        user: str | None = None,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        summarize: Compaction | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        conflict: Literal["raise", "append"] = "raise",
        retain: Retention = None,
    ) -> None:
        if conflict not in ("raise", "append"):
            raise InvalidInput(f'conflict= is "raise" or "append", not {conflict!r}')
        Bounds.of(last, turns, max_tokens, count, "raise")
        check_compaction(summarize, None, None)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._store = store
        self._blocking = not isinstance(store, stateward.Store)
        self._thread = store.thread(session_id, user=user, retain=retain)
        self._bounds = {
            "last": last,
            "turns": turns,
            "max_tokens": max_tokens,
            "count": count,
            "summarize": summarize,
        }
        self._conflict = conflict
        self._read: Cursor | None = None  # how far the history went that the run has seen
        self._lease: HeldLease | None = None
        self._own = False

    @classmethod
    def from_url(cls, url: str, session_id: str, **options: Any) -> Self:
        """A session with a store of its own: `close()` it. Several should share one store."""
        session = cls(stateward.open(url), session_id, **options)
        session._own = True
        return session

    async def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._own:
            await self._store.close()

    # --- what the SDK calls ---------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """The history, oldest first; with a limit exactly the newest items."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None:
            return await self._newest(limit)
        window = await self._call(self._thread.load, **self._bounds)
        self._read = window.cursor
        messages: list[Item] = window.messages
        if window.summary is None:
            return messages
        told = {"role": "system", "content": window.summary}
        return [*messages[: window.pinned], told, *messages[window.pinned :]]

    async def add_items(self, items: list[Item]) -> None:
        """Add items to the end, adjacent, all or none."""
        if not items:
            return
        thread, lease = self._thread, self._lease
        expect = self._read if self._conflict == "raise" else None
        key = thread._scope.world.new_id()
        try:
            added = await self._call(thread.append, *items, key=key, expect=expect, fence=lease)
        except StoreUnavailable:
            if lease is not None or expect is None:
                raise
            # Nobody can tell now whether somebody else wrote: what was said is kept all the same.
            # The key keeps it from being stored twice if the first try was applied.
            added = await self._call(thread.append, *items, key=key)
        if self._read is not None:
            self._read = added.cursor if added.version else None

    async def pop_item(self) -> Item | None:
        """Remove the newest item and return it; None if there is none."""
        scope, entity, user = self._thread._scope, self._thread._entity, self._thread.user
        newest = Fetch(entity, user, Log(last=1, details=True), (SUMMARY,))
        while True:
            fetched = await self._call(scope.fetch, newest)
            if not fetched.entries:
                return None
            (entry,) = fetched.entries
            writes: tuple[Write, ...] = (Replace({entry.seq: None}),)
            if SUMMARY in fetched.documents:  # it may say what is removed here
                writes = (*writes, Delete(SUMMARY))
            unchanged = (CommitsAt(fetched.head.commits),)
            outcome = await self._call(scope.commit, entity, writes, unchanged, owner=user)
            if not isinstance(outcome, Conflict):
                stored(outcome, entity)
                scope.plain_beginnings.pop(entity, None)
                item: Item = decode(entry.body)
                return item

    async def clear_session(self) -> None:
        """Remove the conversation; nothing happens if there is none."""
        await self._call(self._thread.delete)
        self._read = None

    # --- what the SDK does not have -------------------------------------------------

    @asynccontextmanager
    async def turn(self, *, ttl: float = 30.0, wait: float | None = None) -> AsyncIterator[Self]:
        """One run at a time on this conversation, over all replicas: `async with session.turn()`.

        Others wait for up to `wait` seconds (None: as long as it takes), then get `LeaseHeld`. A
        run that has lost its turn, e.g. because it stood still for longer than `ttl`, adds nothing
        any more: `LeaseLost`. Within a turn a failing store raises.
        """
        if self._blocking:
            raise InvalidInput("turn() needs a store made with stateward.open, not a blocking one")
        async with self._thread.lead(ttl=ttl, wait=wait) as lease:
            self._lease = lease
            try:
                yield self
            finally:
                self._lease = None

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Item], bool] | None = None
    ) -> Any:
        """What the SDK's compaction asks a session for: its tail, and a way to replace it at once.

        Replacing is one commit, and gives False if anybody has written meanwhile. `prune_prefix`
        says which items at the beginning go with it.
        """
        from agents.memory.session import _CompactionSnapshot

        thread = self._thread
        asked = Fetch(thread._entity, thread.user, Log(last=limit, details=True), (SUMMARY,))
        fetched = await self._call(thread._scope.fetch, asked)

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            replaced = fetched.entries[start:]
            if not replaced:
                return False
            gone = {entry.seq: None for entry in replaced}
            if prune_prefix is not None:
                gone |= await self._prefix(replaced[0].seq, prune_prefix)
            return await self._exchange(fetched, gone, output)

        items = [decode(entry.body) for entry in fetched.entries]
        return _CompactionSnapshot(items, len(items) == fetched.head.live, replace_suffix)

    async def _prefix(self, before: int, pruned: Callable[[Item], bool]) -> dict[int, None]:
        """The numbers of the items at the beginning that are to go."""
        thread = self._thread
        page = thread._scope.capabilities.page
        gone: dict[int, None] = {}
        after = 0
        while True:
            log = Log(after, before - 1, first=page, details=True)
            fetch = Fetch(thread._entity, thread.user, log)
            entries = (await self._call(thread._scope.fetch, fetch)).entries
            for entry in entries:
                if not pruned(decode(entry.body)):
                    return gone
                gone[entry.seq] = None
            if len(entries) < page:
                return gone
            after = entries[-1].seq

    async def _exchange(self, at: Fetched, gone: dict[int, None], output: list[Item]) -> bool:
        """Items for others, unless anybody has written since they were read."""
        thread = self._thread
        scope = thread._scope
        writes: tuple[Write, ...] = (Replace(gone),)
        if scope.redact is not None:
            output = [scope.redact(item) for item in output]
        if output:
            writes = (*writes, Append(encode_messages(output, scope.limits)))
        if SUMMARY in at.documents:
            writes = (*writes, Delete(SUMMARY))
        unchanged = (CommitsAt(at.head.commits),)
        outcome = await self._call(
            scope.commit, thread._entity, writes, unchanged, owner=thread.user
        )
        if isinstance(outcome, Conflict):
            return False
        applied = stored(outcome, thread._entity)
        scope.plain_beginnings.pop(thread._entity, None)
        if self._read is not None:
            self._read = Cursor(applied.version, applied.stamp)
        return True

    async def _newest(self, limit: int) -> list[Item]:
        """Exactly so many items: the SDK compares them with what it has added."""
        if limit < 0:
            raise InvalidInput(f"limit is a number of items, not {limit}; None gives all of them")
        thread = self._thread
        log = Log(last=limit) if limit else None
        fetched = await self._call(thread._scope.fetch, Fetch(thread._entity, thread.user, log))
        self._read = Cursor(fetched.head.version, fetched.head.stamp or None)
        return decode_lines(fetched.lines) if fetched.count else []

    async def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A blocking store works from any event loop (`Runner.run_sync`), on a thread each."""
        if self._blocking:
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)
