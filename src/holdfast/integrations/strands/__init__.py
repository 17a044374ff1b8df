"""Strands Agents: `pip install 'holdfast[strands]'`.

    repository = HoldfastSessionRepository(store, user="u-42")
    manager = RepositorySessionManager("s-abc123", session_repository=repository)
    agent = Agent(agent_id="waiter", session_manager=manager)

A session is a Holdfast thread: its messages are the thread's messages, in the form in which the
model sees them; the session and its agents are documents beside them. `HoldfastStorage` is the same
store for Strands' snapshots.

Strands calls repositories from blocking code, so both take a store of `holdfast.sync.open`.
"""

from __future__ import annotations

from holdfast.errors import InvalidInput

try:
    import strands  # noqa: F401
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "this adapter needs Strands Agents; install it with: pip install 'holdfast[strands]'"
    ) from error

from holdfast.integrations.strands.repository import HoldfastSessionRepository
from holdfast.integrations.strands.storage import HoldfastStorage

__all__ = ["HoldfastSessionRepository", "HoldfastStorage"]
