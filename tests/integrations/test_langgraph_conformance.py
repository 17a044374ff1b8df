"""LangGraph's own conformance suite: every capability, on every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from stateward import sync
from stateward.integrations.langgraph import StatewardSaver

CHECKS = 81


async def report_on(make: object) -> None:
    report = await validate(checkpointer_test(name=str(uuid4()))(make))
    failures = [each for result in report.results.values() for each in result.failures]
    assert failures == []
    detected = {name for name, result in report.results.items() if result.detected}
    assert detected == {capability.value for capability in ALL_CAPABILITIES}
    assert sum(result.tests_passed for result in report.results.values()) == CHECKS


@pytest.mark.parametrize("on_conflict", ["raise", "fork"])
async def test_every_capability_is_there_and_passes(url: str, on_conflict: object) -> None:
    async def make() -> AsyncIterator[StatewardSaver]:
        async with StatewardSaver.from_url(url, on_conflict=on_conflict) as saver:  # type: ignore[arg-type]
            yield saver

    await report_on(make)


async def test_a_blocking_store_serves_asynchronous_graphs_too(url: str) -> None:
    async def make() -> AsyncIterator[StatewardSaver]:
        with sync.open(url, namespace="blocking") as store:
            yield StatewardSaver(store)

    await report_on(make)
