"""Strands Agents: `pip install 'stateward[strands]'`.

    manager = StatewardSessionManager(store, "s-abc123", user="u-42")
    agent = Agent(agent_id="waiter", session_manager=manager)

A session is a Stateward thread: its messages are the thread's messages, in the form in which the
model sees them; the session and its agents are documents beside them. `StatewardSessionRepository`
is that without turns, for a session manager of Strands' own; `StatewardStorage` is the same store
for Strands' snapshots.

Strands calls repositories from blocking code, so all take a store of `stateward.sync.open`.
"""

from __future__ import annotations

from stateward.integrations.extras import extra

with extra("strands", "this adapter needs Strands Agents"):
    import strands  # noqa: F401

from stateward.integrations.strands.manager import StatewardSessionManager
from stateward.integrations.strands.sessions import StatewardSessionRepository
from stateward.integrations.strands.storage import StatewardStorage
from stateward.integrations.strands.tools import effect_tool

__all__ = [
    "StatewardSessionManager",
    "StatewardSessionRepository",
    "StatewardStorage",
    "effect_tool",
]
