"""Fixtures for the tests of agents: a store, its faults, and a clock that the test moves.

    async def test_a_conversation_is_forgotten_after_a_month(holdfast_store, holdfast_clock):
        await holdfast_store.thread("s-1").append({"role": "user", "content": "hello"})
        holdfast_clock.advance(days=31)
        assert not (await holdfast_store.thread("s-1").load()).exists

pytest loads this file wherever the package is installed, so what it needs is imported by the
fixtures themselves. The store opens in the test's own event loop, whichever plugin runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.layers.policy import Policy
    from holdfast.sync.testing.faults import FaultyStore as SyncFaultyStore
    from holdfast.testing.clock import SteppableWorld
    from holdfast.testing.faults import FaultyStore


@pytest.fixture
def holdfast_clock() -> SteppableWorld:
    """The clock of `holdfast_store` and `holdfast_sync_store`; `advance(days=31)` moves it."""
    from holdfast.testing.clock import SteppableWorld

    return SteppableWorld()


@pytest.fixture
def holdfast_store(holdfast_clock: SteppableWorld) -> FaultyStore:
    """A store in memory, of this test alone. `holdfast_store.faults` makes it fail."""
    from holdfast.testing.faults import open_faulty

    return open_faulty(world=holdfast_clock, policy=_impatient())


@pytest.fixture
def holdfast_sync_store(holdfast_clock: SteppableWorld) -> SyncFaultyStore:
    """As `holdfast_store`, for blocking code."""
    from holdfast.sync.testing.faults import open_faulty

    return open_faulty(world=holdfast_clock, policy=_impatient())


def _impatient() -> Policy:
    """Memory answers at once: only a fault ever waits, and a test should not wait long for it.

    The breaker stays closed, so that the store works again as soon as the fault is over.
    """
    from holdfast.layers.policy import Policy

    return Policy(read_timeout=0.3, write_timeout=0.6, breaker_failures=1_000_000)
