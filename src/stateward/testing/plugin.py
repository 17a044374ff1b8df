"""Fixtures for the tests of agents: a store, its faults, and a clock that the test moves.

    async def test_a_conversation_is_forgotten_after_a_month(stateward_store, stateward_clock):
        await stateward_store.thread("s-1").append({"role": "user", "content": "hello"})
        stateward_clock.advance(days=31)
        assert not (await stateward_store.thread("s-1").load()).exists

pytest loads this file wherever the package is installed, so what it needs is imported by the
fixtures themselves. The store opens in the test's own event loop, whichever plugin runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stateward.layers.policy import Policy
    from stateward.sync.testing.faults import FaultyStore as SyncFaultyStore
    from stateward.testing.clock import SteppableWorld
    from stateward.testing.faults import FaultyStore


@pytest.fixture
def stateward_clock() -> SteppableWorld:
    """The clock of `stateward_store` and `stateward_sync_store`; `advance(days=31)` moves it."""
    from stateward.testing.clock import SteppableWorld

    return SteppableWorld()


@pytest.fixture
def stateward_store(stateward_clock: SteppableWorld) -> FaultyStore:
    """A store in memory, of this test alone. `stateward_store.faults` makes it fail."""
    from stateward.testing.faults import open_faulty

    return open_faulty(world=stateward_clock, policy=_impatient())


@pytest.fixture
def stateward_sync_store(stateward_clock: SteppableWorld) -> SyncFaultyStore:
    """As `stateward_store`, for blocking code."""
    from stateward.sync.testing.faults import open_faulty

    return open_faulty(world=stateward_clock, policy=_impatient())


def _impatient() -> Policy:
    """Memory answers immediately: only a fault ever waits, and a test should not wait long for it.

    The breaker stays closed, so that the store works again as soon as the fault is over.
    """
    from stateward.layers.policy import Policy

    return Policy(read_timeout=0.3, write_timeout=0.6, breaker_failures=1_000_000)
