"""A conversation of Pydantic AI: its history, its runs, and its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeVar, Unpack

from pydantic_ai.agent import AbstractAgent, AgentRunResult
from pydantic_ai.messages import ModelMessage

from stateward.codec import Retention, check_span, decode
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.integrations.adapter import OnAnyStore
from stateward.integrations.pydantic_ai.messages import (
    Added,
    as_given,
    as_stored,
    new_messages,
    system_request,
)
from stateward.integrations.turns import TTL, WAIT, AgentRun, Turns, begin
from stateward.integrations.window_options import WindowOptions, check_conflict, checked_window
from stateward.layers.outage.answers import Suppressed
from stateward.ops import Check, Duplicate, Fenced, Log, LogAt
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.records import Appended, Cursor
from stateward.state.refusals import stored
from stateward.state.window_record import Window

T = TypeVar("T")


class ConversationTurn:
    """One run of a conversation: its first history, and the place of its messages."""

    def __init__(self, conversation: StatewardConversation) -> None:
        self.history: list[ModelMessage] = []
        self._conversation = conversation
        self._window: Window | None = None  # the window that `history` was read as
        self._at: Cursor | None = None  # the cursor after which its messages belong

    @property
    def run(self) -> AgentRun:
        """Return the run in the form that identifies the holder of a turn."""
        return AgentRun(self, self)

    async def add(self, result: Added, *, key: str | None = None) -> Appended:
        """Store what the run has added, and let the next one begin.

        See `StatewardConversation.add`.
        """
        return await self._conversation._append(self, result, key)


class StatewardConversation(OnAnyStore):
    """A conversation of Pydantic AI, kept in a store. Making one asks the store nothing.

    `run` does it all. Or take `history()`, run the agent yourself with `message_history=`, and
    `add` what comes of it. The messages of a run are stored adjacent, all or none, and once,
    however often the run is added: its run id is their key. A run that would be stored after
    messages that its history did not have raises `StateConflictError`. With `conflict="append"` no
    run waits, and runs are stored in the order in which they end.

    `last`, `turns`, `max_tokens` (by `count`) and `summarize` bound the history, as `Thread.load`
    does it: tool calls and their results stay together. The system prompt stays, too.

    A run that is added while the store does not answer is kept locally as the store's policy says;
    reading then raises `StoreUnavailable`, never an empty history.
    """

    def __init__(
        self,
        store: Any,
        conversation_id: str,
        *,
        user: Whose = UNSAID,
        conflict: Literal["raise", "append"] = "raise",
        wait: float | None = WAIT,
        retain: Retention | Unsaid = UNSAID,
        **window: Unpack[WindowOptions],
    ) -> None:
        self._conflict = check_conflict(conflict)
        self._bounds = checked_window(**window)
        super().__init__(store)
        self.conversation_id = conversation_id
        self._thread = self._store.thread(conversation_id, user=user, retain=retain)
        self._handle = self._thread.handle
        self._wait = None if wait is None else check_span(wait, "wait")
        self._turns = Turns.of(self._handle.scope)
        self._own = ConversationTurn(self)  # the turn of `history` and `add`, which do not wait

    # --- whole runs -----------------------------------------------------------------

    async def run(
        self, agent: AbstractAgent[Any, T], user_prompt: Any = None, **options: Any
    ) -> AgentRunResult[T]:
        """Run an agent with the history, and store what the run has added.

        The run has the conversation to itself: another one waits for its end, for up to `wait`
        seconds (None: as long as it takes), then raises `LeaseHeld`. A run that fails stores
        nothing. `options` are those of `agent.run`.
        """
        async with self.turn() as turn:
            result: AgentRunResult[T] = await agent.run(user_prompt, **self._options(turn, options))
            await turn.add(result)
        return result

    def run_sync(
        self, agent: AbstractAgent[Any, T], user_prompt: Any = None, **options: Any
    ) -> AgentRunResult[T]:
        """`run` from blocking code, over a store of `stateward.sync.open`."""
        turn = ConversationTurn(self)
        try:
            self._block(self._begin(turn))
            begin(turn.run)
            result: AgentRunResult[T] = agent.run_sync(user_prompt, **self._options(turn, options))
            self._block(turn.add(result))
        finally:
            self._block(self._end(turn))
        return result

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[ConversationTurn]:
        """Hold the conversation for a run of your own, e.g. a streamed one.

        `async with conversation.turn() as turn`: run the agent with `turn.history`, and
        `await turn.add(result)` when it is at its end. Others wait as they do for `run`.
        """
        turn = ConversationTurn(self)
        try:
            await self._begin(turn)
            begin(turn.run)
            yield turn
        finally:
            await self._end(turn)

    def _options(self, turn: ConversationTurn, options: dict[str, Any]) -> dict[str, Any]:
        if reserved := options.keys() & {"message_history", "conversation"}:
            raise InvalidInput(
                f"{', '.join(sorted(reserved))}: the history comes from the store here; to run "
                "with another one, call agent.run yourself, and then conversation.add(result)"
            )
        own = {"message_history": turn.history, "conversation_id": self.conversation_id}
        return own | options

    async def _begin(self, turn: ConversationTurn) -> None:
        handle = self._handle
        if self._conflict == "raise" and not self._turns.is_shared(handle.entity):
            granted = await self._call(
                handle.scope.leases.acquire,
                handle.entity,
                ttl=TTL,
                wait=self._wait,
                owner=handle.owner,
                retain=None if handle.retain is None else max(handle.retain, 2 * TTL),
            )
            self._turns.taken(handle.entity, turn.run, *granted)
        await self._read(turn)

    async def _end(self, turn: ConversationTurn) -> None:
        held = self._turns.get(self._handle.entity, turn.run)
        if held is not None:
            with suppress(StoreUnavailable):  # then the turn ends by itself
                await self._give_turn_back(self._handle, held)

    # --- parts of a run -------------------------------------------------------------

    async def history(self) -> list[ModelMessage]:
        """Return the messages so far, oldest first, for `agent.run(…, message_history=…)`."""
        await self._read(self._own)
        return self._own.history

    async def add(self, result: Added, *, key: str | None = None) -> Appended:
        """Add the messages of a run to the history: adjacent, all or none.

        `result` is what `run`, `run_sync`, `run_stream` or `iter` gave, when it is at its end; or
        messages. Adding the same run again is a `duplicate`; other messages under its run id, or
        under `key`, raise `KeyReusedError`.
        """
        return await self._append(self._own, result, key)

    def history_sync(self) -> list[ModelMessage]:
        """`history` from blocking code, over a store of `stateward.sync.open`."""
        return self._block(self.history())

    def add_sync(self, result: Added, *, key: str | None = None) -> Appended:
        """`add` from blocking code, over a store of `stateward.sync.open`."""
        return self._block(self.add(result, key=key))

    async def _read(self, turn: ConversationTurn) -> None:
        window: Window = await self._call(self._thread.load, **self._bounds)
        history = as_given(window.messages, self.conversation_id)
        if window.omitted:
            first: list[ModelMessage] = []
            if not window.pinned:
                fetched = await self._call(self._handle.fetch, Log(first=1))
                first = as_given([*map(decode, fetched.lines.splitlines())], self.conversation_id)
            history = [*system_request(first, window.summary), *history]
        turn.history, turn._window, turn._at = history, window, window.cursor

    async def _append(self, turn: ConversationTurn, result: Added, key: str | None) -> Appended:
        handle = self._handle
        messages = as_stored(new_messages(result))
        if key is None:
            key = handle.scope.world.new_id() if isinstance(result, Sequence) else result.run_id
        checks: tuple[Check, ...] = ()
        if turn._at is not None and self._conflict == "raise":
            checks = (LogAt(turn._at.version, turn._at.stamp),)
        own_turn = self._turns.get(handle.entity, turn.run)
        release = () if own_turn is None else (own_turn.release,)
        # Without the store a conflict cannot be detected: the messages are spilled in any case,
        # and the key keeps them from being stored twice.
        saw = {"keep": True, "saw": turn._window}
        outcome = await self._call(handle.append, messages, key, checks, release, **saw)
        if release and isinstance(outcome, Fenced):  # the turn was lost and is free
            outcome = await self._call(handle.append, messages, key, checks, **saw)
        if isinstance(outcome, Suppressed):
            turn._at = turn._window = None
            return Appended(outcome.status, 0, Cursor(0))
        applied = stored(outcome, handle.entity)
        again = isinstance(outcome, Duplicate) and not outcome.own
        cursor = Cursor(applied.version, applied.stamp)
        if not again:
            if own_turn is not None:
                self._turns.end(own_turn)
            turn._at, turn._window = (None if turn._at is None else cursor), None
        return Appended("duplicate" if again else "stored", applied.version, cursor)
