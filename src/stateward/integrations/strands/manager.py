"""The session manager of Strands over a store: one run at a time in a session."""

from __future__ import annotations

import asyncio
from typing import Any

from strands.hooks.events import AfterInvocationEvent, BeforeInvocationEvent
from strands.hooks.registry import HookRegistry
from strands.session import RepositorySessionManager

from stateward import sync
from stateward.codec import Retention, check_span
from stateward.integrations.adapter import OnBlockingStore
from stateward.integrations.strands.sessions import StatewardSessionRepository
from stateward.integrations.turns import TTL, WAIT, AgentRun, Turns, begin
from stateward.ops import Commit
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.sync.state.handle import Handle


class StatewardSessionManager(OnBlockingStore, RepositorySessionManager):
    """The manager of one session: `Agent(session_manager=StatewardSessionManager(store, id))`.

    An invocation has the session to itself; another one waits for it, for up to `wait` seconds
    (None: as long as it takes), and then raises `LeaseHeld`. It begins with the state
    stored by then, not with that of the agent. Messages and state are stored as by
    `StatewardSessionRepository`. Making one asks the store for the session, and creates it.
    """

    def __init__(
        self,
        store: sync.Store,
        session_id: str,
        *,
        user: Whose = UNSAID,
        wait: float | None = WAIT,
        retain: Retention | Unsaid = UNSAID,
    ) -> None:
        OnBlockingStore.__init__(self, store)
        self._repository = StatewardSessionRepository(store, user=user, retain=retain)
        RepositorySessionManager.__init__(self, session_id, self._repository)
        self._wait = None if wait is None else check_span(wait, "wait")
        self._handle = self._repository._handle(session_id)
        self._turns = Turns.of(self._handle.scope)
        self._invoked: set[str] = set()  # an agent of the session may call another one of it

    @property
    def handle(self) -> Handle:
        """The session's thread, for adapters that build operations."""
        return self._handle

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Take the turn before all reads and writes, and give the turn back after them."""
        registry.add_callback(AfterInvocationEvent, self._end)  # called last to first
        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeInvocationEvent, self._begin)

    async def _begin(self, event: BeforeInvocationEvent) -> None:
        id = event.agent.agent_id
        # An earlier invocation of the agent is over, even if a failed hook did not report the end.
        alone = self._invoked <= {id} and not self._turns.is_shared(self._handle.entity)
        if alone and self._turns.get(self._handle.entity, AgentRun(self, self)) is None:
            await asyncio.to_thread(self._take_turn)
        self._invoked.add(id)
        begin(AgentRun(self, self))
        if self._repository._is_behind(self.session_id, id):
            self._latest_agent_message.pop(id)
            self._last_synced_internal_state.pop(id, None)
            self._is_new_session = False
            self.initialize(event.agent)

    async def _end(self, event: AfterInvocationEvent) -> None:
        self._invoked.discard(event.agent.agent_id)
        if not self._invoked:
            await asyncio.to_thread(self._give_turn_back)

    def _take_turn(self) -> None:
        handle = self._handle
        granted = handle.scope.leases.acquire(
            handle.entity, ttl=TTL, wait=self._wait, owner=handle.owner
        )
        self._turns.taken(handle.entity, AgentRun(self, self), *granted)

    def _give_turn_back(self) -> None:
        """Give the turn back; a lost one belongs to another run already."""
        turn = self._turns.get(self._handle.entity, AgentRun(self, self))
        if turn is not None:
            scope = self._handle.scope
            release = (self._turns.end(turn).release,)
            scope.execute((Commit(self._handle.entity, scope.world.new_op(), release),))
