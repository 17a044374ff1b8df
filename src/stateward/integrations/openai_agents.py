"""The OpenAI Agents SDK: `pip install 'stateward[openai-agents]'`.

    session = StatewardSession(store, "s-abc123", user="u-42")
    await Runner.run(agent, "Medium rare, please.", session=session)

A session is a Stateward thread: every item is one of its messages, kept as it was given. What other
frameworks have added to the thread is given to a run as items.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Literal, Self, Unpack

from stateward.codec import Retention, check_span, decode
from stateward.context.compaction import SUMMARY
from stateward.errors import EffectUnknown, InvalidInput, StateConflictError
from stateward.integrations.adapter import OnAnyStore
from stateward.integrations.extras import extra
from stateward.integrations.tool_effects import EffectToolOptions, ToolEffects
from stateward.integrations.turns import WAIT, AgentRun, Turns, begin
from stateward.integrations.window_options import WindowOptions, check_conflict, checked_window
from stateward.layers.leases.held import HeldLease
from stateward.layers.outage.answers import Suppressed
from stateward.layers.outage.edits import EDITS, edited
from stateward.ops import (
    Append,
    Check,
    CommitsAt,
    Conflict,
    Delete,
    Fence,
    Fenced,
    Fetched,
    Held,
    Log,
    LogAt,
    Outcome,
    Replace,
    Write,
)
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.records import Cursor
from stateward.shapes import are_foreign, translate
from stateward.state.conversation_life import Life
from stateward.state.receipts import life_of
from stateward.state.refusals import stored
from stateward.state.threads import Thread
from stateward.sync.state.threads import Thread as BlockingThread

with extra("openai-agents", "StatewardSession needs the OpenAI Agents SDK"):
    from agents import FunctionTool, RunContextWrapper
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings
    from agents.tool import (
        maybe_invoke_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tool_context import ToolContext
    from pydantic_core import to_jsonable_python

Item = dict[str, Any]


class StatewardSession(OnAnyStore):
    """A conversation of the OpenAI Agents SDK, kept in a store. Making one asks the store nothing.

    Make one for each run: it remembers what the run has read. A run has the conversation to itself
    from its question to its answer; another one waits for it, for up to `wait` seconds (None: as
    long as it takes), and then gets `LeaseHeld`. An item that would still be stored after
    another run's items raises `StateConflictError`. With `conflict="append"` no run waits, and
    items are stored in the order in which they arrive.

    Items added while the store does not answer are kept locally as the store's policy says;
    reading then raises `StoreUnavailable`, never an empty history.

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
        user: Whose = UNSAID,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        conflict: Literal["raise", "append"] = "raise",
        wait: float | None = WAIT,
        retain: Retention | Unsaid = UNSAID,
        **window: Unpack[WindowOptions],
    ) -> None:
        self._conflict = check_conflict(conflict)
        self._bounds = checked_window(**window)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        super().__init__(store)
        self._thread = self._store.thread(session_id, user=user, retain=retain)
        self._handle = self._thread.handle
        self._wait = None if wait is None else check_span(wait, "wait")
        self._turns = Turns.of(self._handle.scope)
        self._read: Cursor | None = None  # the end of the history that the run has read
        self._life: Life | None = None  # of the conversation that the run has read
        self._lease: HeldLease | None = None

    # --- what the SDK calls ---------------------------------------------------------

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[Item]:
        """Return the history, oldest item first; with a limit exactly the newest items.

        `wrapper` comes from the SDK's runner: only a run waits for another run's end.
        """
        if self._takes_turns(wrapper):
            await self._wait_for_turn(self._handle, self._run, self._wait)
            begin(self._run)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None:
            return await self._newest(limit)
        window = await self._call(self._thread.load, **self._bounds)
        self._read, self._life = window.cursor, life_of(window)
        messages: list[Item] = window.messages
        if window.summary is not None:
            summary = {"role": "system", "content": window.summary}
            messages = [*messages[: window.pinned], summary, *messages[window.pinned :]]
        return as_items(messages)

    async def add_items(
        self, items: list[Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Add items to the end, adjacent, all or none."""
        if not items:
            return
        lease, handle = self._lease, self._handle
        checks: list[Check] = []
        if lease is not None:
            checks.append(Fence(lease.token, lease.nonce))
        if self._read is not None and self._conflict == "raise":
            checks.append(LogAt(self._read.version, self._read.stamp))
        # Without the store a conflict cannot be detected: the items are spilled in any case, and
        # the key keeps them from being stored twice. A turn of another run is reported instead.
        key, keep = handle.scope.world.new_id(), lease is None
        requested_at = handle.scope.world.monotonic()
        turn_held = self._turns.get(handle.entity, self._run)
        turn = self._turn_after(items) if self._takes_turns(wrapper) else ()
        how = {"keep": keep, "life": self._life}
        outcome = await self._call(handle.append, items, key, tuple(checks), turn, **how)
        if turn and isinstance(outcome, Fenced):  # the turn was lost, and no other run has taken it
            outcome = await self._call(handle.append, items, key, tuple(checks), **how)
        if turn_held is not None and isinstance(outcome, Conflict):
            await self._give_turn_back(handle, turn_held)
        if isinstance(outcome, Held):
            raise StateConflictError(
                f"another run has begun in the session {self.session_id!r}; nothing of this one "
                "was stored: run it again",
                expected=None,
                current=outcome.head.version,
            )
        end = None if isinstance(outcome, Suppressed) else self._end(outcome)
        granted = None if end is None else stored(outcome, handle.entity).lease
        if granted is not None:
            self._turns.taken(handle.entity, self._run, granted, requested_at)
        if self._read is not None:
            self._read = end

    @property
    def handle(self) -> Any:
        """The session's thread, for effect tools."""
        return self._handle

    @property
    def _run(self) -> AgentRun:
        return AgentRun(self, self)

    def _takes_turns(self, wrapper: RunContextWrapper[Any] | None) -> bool:
        return wrapper is not None and self._conflict == "raise" and self._lease is None

    def _turn_after(self, items: list[Item]) -> tuple[Write, ...]:
        """Return the turn's writes with these items: an answer ends it, all else begins it."""
        turn = self._turns.get(self._handle.entity, self._run)
        if not goes_on(items[-1]):
            return () if turn is None else (self._turns.end(turn).release,)
        if turn is not None or self._turns.is_shared(self._handle.entity):
            return ()
        return (self._turns.acquire(self._handle.entity),)

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> Item | None:
        """Remove the newest item and return it; None if there is none."""
        while True:
            window = await self._call(self._thread.load, last=1, exact=True, entries=True)
            if not window.entries:
                return None
            removed = await self._call(self._thread.edit, {window.entries[0].version: None})
            if removed:  # else another caller has popped the item
                item: Item = removed[0].message
                return item

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Remove the conversation; a missing one is ignored."""
        await self._call(self._thread.delete)
        self._read = self._life = None

    # --- what the SDK does not have -------------------------------------------------

    @asynccontextmanager
    async def turn(self, *, ttl: float = 30.0, wait: float | None = None) -> AsyncIterator[Self]:
        """Hold a turn across several runs or other work: `async with session.turn()`.

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
        """Return the session's tail for the SDK's compaction, and a way to replace it in one step.

        Replacing is one commit, and returns False if anyone has written in between. `prune_prefix`
        says which items at the beginning go with it.
        """
        from agents.memory.session import _CompactionSnapshot

        newest = Log(last=limit, details=True)
        fetched = await self._call(self._handle.fetch, newest, (SUMMARY, EDITS))

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            replaced = fetched.entries[start:]
            if not replaced:
                return False
            gone = {entry.seq: None for entry in replaced}
            if prune_prefix is not None:
                gone |= await self._prefix(replaced[0].seq, prune_prefix)
            end = await self._exchange(fetched, gone, output)
            if end is not None and self._read is not None:
                self._read = end
            return end is not None

        items = [decode(entry.body) for entry in fetched.entries]
        return _CompactionSnapshot(items, len(items) == fetched.head.live, replace_suffix)

    async def _prefix(self, before: int, pruned: Callable[[Item], bool]) -> dict[int, None]:
        """Return the numbers of the items at the beginning to be removed."""
        numbers: dict[int, None] = {}
        async for page in self._each(self._handle.pages(upto=before - 1)):
            for entry in page.entries:
                if not pruned(decode(entry.body)):
                    return numbers
                numbers[entry.seq] = None
        return numbers

    async def _exchange(
        self, at: Fetched, gone: dict[int, None], output: list[Item]
    ) -> Cursor | None:
        """Replace items by others; None: someone has written since the items were read."""
        noted = edited(at.documents.get(EDITS), at.head, gone)
        writes: tuple[Write, ...] = (Replace(gone), noted)
        if output:
            writes = (*writes, Append(self._handle.encoded(output)))
        if SUMMARY in at.documents:  # the summary may contain the removed items
            writes = (*writes, Delete(SUMMARY))
        unchanged = (CommitsAt(at.head.commits),)
        outcome = await self._call(self._handle.commit, writes, unchanged)
        return None if isinstance(outcome, Conflict) else self._end(outcome)

    def _end(self, outcome: Outcome) -> Cursor:
        applied = stored(outcome, self._handle.entity)
        return Cursor(applied.version, applied.stamp)

    async def _newest(self, limit: int) -> list[Item]:
        """Return exactly `limit` items, which the SDK compares with those that it has added."""
        if limit < 0:
            raise InvalidInput(f"limit is a number of items, not {limit}; None gives all of them")
        window = await self._call(self._thread.load, last=limit or 1, exact=True)
        self._read, self._life = window.cursor, life_of(window)
        return as_items(window.messages) if limit else []


def as_items(messages: list[Item]) -> list[Item]:
    """Return messages as items: those of other frameworks translated, the SDK's own as given."""
    if not are_foreign(messages, "openai-responses", "plain"):
        return messages
    return translate(messages, "openai-responses").messages


def goes_on(item: Item) -> bool:
    """Return whether another item has to follow in the run; unknown (e.g. encrypted): no."""
    role = item.get("role")
    return "type" in item if role is None else role != "assistant"


# --- tools that act -----------------------------------------------------------------------------

AnyThread = Thread | BlockingThread
Conversation = StatewardSession | AnyThread


def effect_tool(
    session: Conversation | Callable[[ToolContext[Any]], Conversation],
    tool: FunctionTool,
    **options: Unpack[EffectToolOptions],
) -> FunctionTool:
    """Return the tool with each call carried out once for a session: see `Thread.effect`.

    `Agent(tools=[effect_tool(session, charge)])`; with a function of the tool's context instead of
    a session, one agent serves all. The call is the id of the tool call, or what `key` makes of its
    arguments: give one, because the SDK stores calls only with their results, so that a run that is
    repeated after a crash asks its model again, and gets another id. An exception of the tool is
    recorded, and then reported to the model as the tool does it; `EffectUnknown` ends the run.
    """
    acts = ToolEffects(tool.name, **options)
    inner = set_function_tool_failure_error_function(copy(tool), None)

    async def acting(context: ToolContext[Any], input: str) -> Any:
        async def act(**_: Any) -> Any:
            return to_jsonable_python(await inner.on_invoke_tool(context, input))

        conversation = session(context) if callable(session) else session
        arguments = decode(input) if input else {}
        try:
            return await acts.carry_out(conversation.handle, context.tool_call_id, act, arguments)
        except EffectUnknown:
            raise
        except Exception as error:
            report = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=error
            )
            if report is None:
                raise
            return report

    outer = copy(tool)
    outer.on_invoke_tool = acting
    return outer
