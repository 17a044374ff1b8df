"""A request during an outage: answered, kept under its key, and stored once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from policy.processes.test_killed import locked
from stateward import Policy
from stateward.kinds import turn_of
from stateward.ops import Commit, Entity, Fetch, Fetched
from stateward.testing.faults import FaultyStore, open_faulty

PATIENT = Policy(read_timeout=20.0, write_timeout=20.0, breaker_seconds=0.05)
QUESTION = {"role": "user", "content": "?"}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def open_store(place: str, folder: Path, **options: Any) -> FaultyStore:
    chosen: dict[str, Any] = {"policy": PATIENT, "spill": str(folder)} | options
    return open_faulty(place, identity=place, **chosen)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


async def deliver(store: stateward.Store, key: str, text: str, **options: Any) -> Any:
    async with store.thread("s-1", user="u-1").turn(key=key, last=20, **options) as turn:
        if turn.answer is None:
            await turn.store(QUESTION, says(text))
    return turn.answer


async def test_two_replicas_that_answered_alone_store_one_answer_and_nothing_is_called_lost(
    place: str, tmp_path: Path
) -> None:
    async with (
        open_store(place, tmp_path / "a") as one,
        open_store(place, tmp_path / "b") as two,
        stateward.open(place, spill=False) as other,
    ):
        await deliver(other, "r-0", "before")
        with one.faults.unavailable(), two.faults.unavailable():
            assert await deliver(one, "r-1", "one") == says("one")
            assert await deliver(two, "r-1", "two") == says("two")
            assert await deliver(one, "r-1", "one again") == says("one"), "as it is kept here"
            assert await deliver(two, "r-2", "two", alone=True) == says("two")
        stores = (one, two)
        await until(lambda: sum(each.counters.replayed for each in stores) == 3)
        assert [each.counters.lost for each in stores] == [0, 0]
        (answer,) = {(await deliver(each, "r-1", "late"))["content"] for each in (*stores, other)}
        assert answer in ("one", "two")
        found = [m["content"] for m in (await other.thread("s-1").load()).messages]
        assert sorted(found) == sorted(["?", "before", "?", answer, "?", "two"])


async def test_a_spilled_turn_does_not_double_what_another_replica_stored(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path / "a") as store, stateward.open(place) as other:
        with store.faults.unavailable():
            assert await deliver(store, "r-1", "spilled") == says("spilled")
            by_hand = store.thread("s-1", user="u-1")
            said = await by_hand.append(QUESTION, says("spilled"), key="r-2", repeat="first")
            assert (said.status, said.messages) == ("spilled", (QUESTION, says("spilled")))
            assert await deliver(other, "r-1", "stored") == says("stored")
            assert await deliver(other, "r-2", "stored") == says("stored")
        await until(lambda: store.counters.replayed == 2)
        assert store.counters.lost == 0
        assert await deliver(store, "r-1", "again") == says("stored")
        assert len((await other.thread("s-1").load()).messages) == 4


async def test_a_store_that_fails_in_mid_turn_costs_neither_answer_nor_turn(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path / "a") as store, stateward.open(place) as other:
        for alone in (False, True):
            key = f"alone={alone}"
            thread = store.thread("s-1", user="u-1")
            async with thread.turn(key=key, alone=alone, ttl=0.3) as turn:
                assert turn.known
                with store.faults.unavailable():
                    assert (await turn.store(QUESTION, says(key))).status == "spilled"
                    assert turn.answer == says(key)
            spilled = 1 + alone
            await until(lambda spilled=spilled: store.counters.replayed == spilled)
            assert await deliver(other, key, "other", alone=alone) == says(key)
        async with thread.turn(key="expecting", last=20) as turn:
            with store.faults.unavailable(), pytest.raises(stateward.StoreUnavailable):
                await turn.store(QUESTION, says("expected"), expect=turn.window)
            assert turn.answer is None
        assert len((await other.thread("s-1").load()).messages) == 4


async def test_a_store_that_can_be_read_gives_its_window_though_nothing_can_be_written(
    place: str, tmp_path: Path
) -> None:
    policy = Policy(read_timeout=1.0, write_timeout=1.0, breaker_seconds=0.05)
    async with stateward.open(place, policy=policy, spill=tmp_path / "spill") as store:
        await deliver(store, "r-0", "before")
        await until(lambda: not store._layered.stacks[0].backlog.depth)
        with locked(tmp_path / "agents.db"):
            async with store.thread("s-1", user="u-1").turn(key="r-1", last=20) as turn:
                assert not turn.known
                assert turn.messages == [QUESTION, says("before")]
                assert (await turn.store(QUESTION, says("during"))).status == "spilled"
        await until(lambda: not store._layered.stacks[0].backlog.depth)
        assert len((await store.thread("s-1").load()).messages) == 4


async def test_a_caller_that_goes_away_while_it_enters_leaves_the_request_free(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path / "a") as store, stateward.open(place) as other:
        await other.thread("s-1", user="u-1").append(QUESTION)
        with store.faults.slow(1.0) as delay:
            entering = asyncio.create_task(deliver(store, "r-1", "gone", ttl=600))
            await until(lambda: delay.fired > 1)  # the claim and the window
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
        engine = other._layered.stacks[0].engine
        claim = turn_of(Entity("default", "thread", "s-1"), "r-1")

        async with asyncio.timeout(60):
            while True:
                (fetched,) = await engine.execute([Fetch(claim)])
                assert isinstance(fetched, Fetched)
                if fetched.head.exists:  # it was granted, though nobody waits for it any more
                    break
                await asyncio.sleep(0.01)
        assert await deliver(other, "r-1", "next", wait=60) == says("next"), "and given back"


async def test_a_store_that_is_closed_gives_its_requests_back(place: str, tmp_path: Path) -> None:
    async with stateward.open(place) as other:
        async with open_store(place, tmp_path / "a") as store:
            turn = store.thread("s-1", user="u-1").turn(key="r-1", ttl=600)
            await turn.__aenter__()
        assert await deliver(other, "r-1", "next", wait=0) == says("next")


async def test_asking_for_a_key_counts_as_no_append_and_no_conflict(place: str) -> None:
    async with stateward.open(place) as store:
        for text in ("one", "two"):
            await deliver(store, "r-1", text)
        metrics = store.metrics()
        total = "stateward_operations_total"
        assert metrics.value(total, kind="thread", operation="append", outcome="ok") == 1
        assert metrics.value(total, kind="thread", operation="find", outcome="ok") == 2
        assert metrics.value(total, kind="thread", outcome="conflict") == 0
        assert metrics.value(total, kind="thread", outcome="key_reused") == 0


async def test_a_turn_takes_as_many_round_trips_as_load_and_append(place: str) -> None:
    asked: list[str] = []
    async with stateward.open(place, spill=False) as store:
        engine = store._layered.stacks[0].engine
        send = engine.execute

        async def counted(ops: Any, **hints: Any) -> Any:
            asked.append("write" if isinstance(ops[0], Commit) else "read")
            return await send(ops, **hints)

        engine.execute = counted  # type: ignore[method-assign]
        await deliver(store, "r-0", "first")
        asked.clear()
        await deliver(store, "r-1", "answer")
        assert sorted(asked) == ["read", "write", "write"], "the first two at once"
        asked.clear()
        await deliver(store, "r-1", "other")
        assert sorted(asked) == ["read", "read", "write"]
