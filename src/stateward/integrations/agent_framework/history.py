"""Conversations of agents: a history provider over threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack
from weakref import WeakKeyDictionary

from agent_framework import AgentSession, HistoryProvider, Message, SessionContext, SupportsAgentRun

from stateward.codec import Retention, check_key, check_span
from stateward.errors import InvalidInput
from stateward.integrations.adapter import OnAnyStore
from stateward.integrations.agent_framework.given_history import READING, GivenHistory
from stateward.integrations.agent_framework.messages import Kept, as_messages, unknown
from stateward.integrations.turns import TTL, WAIT, AgentRun, Turns, begin
from stateward.integrations.window_options import WindowOptions, check_conflict, checked_window
from stateward.layers.outage.answers import Suppressed
from stateward.ops import Check, Conflict, Fenced, Held, KeyReused, LogAt, Write
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.records import Cursor
from stateward.state.receipts import life_of
from stateward.state.refusals import stored

USER, KEY = "user", "key"  # keys of the provider's part in the state of a session


class StatewardHistoryProvider(OnAnyStore, HistoryProvider):
    """Conversations of Agent Framework, kept in a store: one provider serves all of an agent's.

    A session is a thread: `session()` makes one that says whose it is. A run has the conversation
    to itself from its beginning to its end; another one waits for it, for up to `wait` seconds
    (None: as long as it takes), and then gets `LeaseHeld`. What a run adds, its question and its
    answer, is stored together; if another writer was faster, it raises `StateConflictError`, and
    nothing of it is stored. With `conflict="append"` no run waits, and runs are stored in the order
    in which they end.

    Messages added while the store does not answer are kept locally as the store's policy says;
    reading then raises `StoreUnavailable`, never an empty history.

    `last`, `turns`, `max_tokens` (by `count`) and `summarize` bound what a run gets to see, as
    `Thread.load` does it: calls and their results stay together. The other arguments are those of
    the framework's `HistoryProvider`.
    """

    DEFAULT_SOURCE_ID = "stateward"

    def __init__(
        self,
        store: Any,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        user: Whose = UNSAID,
        conflict: Literal["raise", "append"] = "raise",
        wait: float | None = WAIT,
        retain: Retention | Unsaid = UNSAID,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        **window: Unpack[WindowOptions],
    ) -> None:
        self._conflict = check_conflict(conflict)
        self._bounds = checked_window(**window)
        OnAnyStore.__init__(self, store)
        HistoryProvider.__init__(
            self,
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._user = user
        self._retain = retain
        self._wait = None if wait is None else check_span(wait, "wait")
        self._readings: WeakKeyDictionary[SessionContext, GivenHistory] = WeakKeyDictionary()

    def session(
        self, session_id: str, *, user: Whose = UNSAID, key: str | None = None
    ) -> AgentSession:
        """Return the session of a conversation, with its user. Does no I/O.

        `key` names the request that the next run answers; a repeated request adds nothing.
        """
        state = {} if user is UNSAID else {USER: user}
        if key is not None:
            check_key(key, "first")
            state[KEY] = key
        session = AgentSession(session_id=session_id)
        session.state[self.source_id] = state
        return session

    # --- what the framework calls ---------------------------------------------------

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the history, oldest message first."""
        window = await self._call(self._thread(session_id, state).load, **self._bounds)
        reading = READING.get()
        if reading is not None:
            reading.messages, reading.cursor = window.messages, window.cursor
            reading.life = life_of(window)
        messages: list[Kept] = window.messages
        if window.summary is None:
            return as_messages(messages)
        summary = Message("system", [window.summary])
        first, rest = messages[: window.pinned], messages[window.pinned :]
        return [*as_messages(first), summary, *as_messages(rest)]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to the end, adjacent, all or none.

        Workflows pass whole conversations on: messages that are stored already are skipped.
        """
        if not messages:
            return
        thread = self._thread(session_id, state)
        handle, reading = thread.handle, READING.get()
        bodies = [message.to_dict() for message in messages]
        before = None if reading is None else reading.messages
        if before is None:
            newest = await self._call(thread.load, last=len(bodies), exact=True)
            before = newest.messages
        new = unknown(before, bodies)
        if not new:
            return
        turns = Turns.of(handle.scope)
        turn = None if reading is None else turns.get(handle.entity, reading.run)
        checks: tuple[Check, ...] = ()
        if self._conflict == "raise" and reading is not None and reading.cursor is not None:
            checks = (LogAt(reading.cursor.version, reading.cursor.stamp),)
        request = None if state is None else state.pop(KEY, None)
        key = request or handle.scope.world.new_id()
        writes: tuple[Write, ...] = () if turn is None else (turns.end(turn).release,)
        how = {"keep": True, "life": None if reading is None else reading.life}
        outcome = await self._call(handle.append, new, key, checks, writes, **how)
        if isinstance(outcome, Fenced):  # the turn was lost, and no other run has taken it
            outcome = await self._call(handle.append, new, key, checks, **how)
        elif turn is not None and isinstance(outcome, Conflict | KeyReused):
            await self._give_turn_back(handle, turn)
        if request and isinstance(outcome, KeyReused):
            return  # the request was answered before; the first answer stays
        if isinstance(outcome, Suppressed):
            return
        applied = stored(outcome, handle.entity)
        if reading is not None:
            reading.ends_at([*before, *new], Cursor(applied.version, applied.stamp))

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Take the turn, and load the history into the context."""
        handle = self._thread(context.session_id, state).handle
        reading = self._readings[context] = GivenHistory(handle.entity)
        if self._conflict == "raise":
            await self._take_turn(handle, reading.run)
        begin(reading.run)
        reading.enter()
        within = READING.set(reading)
        try:
            await super().before_run(agent=agent, session=session, context=context, state=state)
        finally:
            READING.reset(within)

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Store the new messages of the run, and give the turn back."""
        within = READING.set(self._readings.get(context))
        try:
            await super().after_run(agent=agent, session=session, context=context, state=state)
        finally:
            READING.reset(within)
        reading = self._readings.pop(context, None)
        if reading is not None:
            handle = self._thread(context.session_id, state).handle
            turn = Turns.of(handle.scope).get(handle.entity, reading.run)
            if turn is not None:  # there was nothing to store
                await self._give_turn_back(handle, turn)

    # --- threads and turns ----------------------------------------------------------

    def _thread(self, session_id: str | None, state: dict[str, Any] | None) -> Any:
        if session_id is None:
            raise InvalidInput(
                "a conversation needs a session id: agent.run(..., session=history.session(id))"
            )
        user = self._user if state is None else state.get(USER, self._user)
        return self._store.thread(session_id, user=user, retain=self._retain)

    async def _take_turn(self, handle: Any, run: AgentRun) -> None:
        """Take the turn at the beginning of a run, which stores nothing else before its end."""
        turns = Turns.of(handle.scope)
        if turns.is_shared(handle.entity):
            return
        requested_at = handle.scope.world.monotonic()
        outcome = await self._call(handle.commit, (turns.acquire(handle.entity),))
        if isinstance(outcome, Held) and not turns.is_taken(handle.entity, run, outcome.head.lease):
            # the turn of a failed run of this process
            outcome = await self._call(handle.commit, (turns.acquire(handle.entity),))
        if isinstance(outcome, Held):
            waits = {"ttl": TTL, "wait": self._wait, "owner": handle.owner}
            acquire = handle.scope.leases.acquire
            lease, requested_at = await self._call(acquire, handle.entity, **waits)
        else:
            lease = stored(outcome, handle.entity).lease
        turns.taken(handle.entity, run, lease, requested_at)
