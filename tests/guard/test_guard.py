"""The hot path stays as short as it is: counts against budgets, and none grows with a history.

Nothing here measures time. `make budgets` writes the budgets anew, after a change that is worth
what it costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from servers.redis import RedisServer, running

import stateward
from stateward.engines.registry import create_engine, parse
from stateward.ops import Op, Outcome
from stateward.world import World

HERE = Path(__file__).parent
MORE = 1.15  # a budget may be exceeded by this much
LESS = 0.5  # and must not be twice as large as what is needed: it would guard nothing
TURN = ({"role": "user", "content": "q" * 480}, {"role": "assistant", "content": "a" * 480})
SHORT, LONG = 20, 10_000
PUTS = 500


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    """Counted in a process of its own: whoever traces must be alone."""
    done = subprocess.run(
        [sys.executable, HERE / "counting.py"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def budgets() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "budgets.json").read_text("utf-8"))
    return found


def complaints(budget: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Where what was counted is beyond its budget, or the budget beyond what is needed."""
    said = []
    for engine, operations in budget.items():
        for operation, figures in operations.items():
            for unit, most in figures.items():
                now = found[engine][operation][unit]
                if not LESS * most <= now <= MORE * most:
                    said.append(f"{operation} on {engine}: {now} {unit}, the budget is {most}")
    return said


def test_no_operation_takes_more_lines_or_calls_than_its_budget(counted: dict[str, Any]) -> None:
    budget = budgets()["costs"]
    assert {engine: list(each) for engine, each in budget.items()} == {
        engine: list(each) for engine, each in counted["costs"].items()
    }, "an operation has no budget: make budgets"
    said = complaints(budget, counted["costs"])
    assert said == [], "if the change is worth it: make budgets"


def test_a_budget_that_is_exceeded_or_far_too_large_is_noticed() -> None:
    budget = {"memory": {"append": {"lines": 100, "calls": 20}}}
    assert complaints(budget, {"memory": {"append": {"lines": 114, "calls": 10}}}) == []
    assert complaints(budget, {"memory": {"append": {"lines": 116, "calls": 9}}}) == [
        "append on memory: 116 lines, the budget is 100",
        "append on memory: 9 calls, the budget is 20",
    ]


def test_sqlite_does_no_more_for_a_long_history_than_for_a_short_one(
    counted: dict[str, Any],
) -> None:
    for name, by_length in counted["sqlite"].items():
        short, long = by_length[str(SHORT)], by_length[str(LONG)]
        assert long["statements"] == short["statements"] > 0, name
        assert long["steps"] <= 1.2 * short["steps"], name
        budget = budgets()["sqlite"][name][str(SHORT)]
        assert short["statements"] <= budget["statements"], name
        assert short["steps"] <= MORE * budget["steps"], name


def test_a_put_costs_little_more_with_its_history(counted: dict[str, Any]) -> None:
    puts = counted["puts"]
    assert puts["no history"] == budgets()["puts"]["no history"], "keep=0 costs what it always did"
    assert puts["history"]["statements"] == puts["no history"]["statements"] + 1
    assert puts["history"]["steps"] <= 1.3 * puts["no history"]["steps"]
    # All that keeps it short included, of a thousand puts within seconds.
    short, bare = (puts[f"{name}, kept short"]["steps"] for name in ("history", "no history"))
    assert short <= 1.3 * bare


def test_a_receipt_costs_little(counted: dict[str, Any]) -> None:
    for engine, costs in counted["costs"].items():
        for unit, without in costs["append"].items():
            assert costs["append, saw"][unit] <= 1.1 * without, engine
    bare = counted["receipts"]["none"]
    for name in ("window", "context"):
        noted = counted["receipts"][name]
        assert noted["statements"] == bare["statements"]
        assert noted["steps"] <= 1.1 * bare["steps"]
        assert noted["bytes"] <= 1.15 * bare["bytes"]


# --- round trips ------------------------------------------------------------------------


class Asked:
    """An engine that counts how often it is asked."""

    def __init__(self, url: str) -> None:
        self._engine: Any = create_engine(parse(url), World())
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.times += 1
        outcomes: list[Outcome] = await self._engine.execute(ops, deadline=deadline)
        return outcomes


def visit(value: dict[str, Any]) -> None:
    value["visits"] = value.get("visits", 0) + 1


async def take_turn(thread: stateward.Thread) -> None:
    async with thread.turn(key="request", last=20) as turn:
        await turn.store(*TURN)


async def list_newest(store: stateward.Store) -> None:
    assert [info.id async for info in store.threads(user="u", order="recent", limit=20)]


def calls_of(store: stateward.Store, thread: str) -> dict[str, Callable[[], Any]]:
    conversation = store.thread(thread, user="u")
    return {
        "append": lambda: conversation.append(*TURN),
        "last 20": lambda: conversation.load(last=20),
        "context": lambda: store.context(user="u", thread=thread, last=20),
        "user get": lambda: store.user("u").get(),
        "user update": lambda: store.user("u").update(visit),
        "user put": lambda: store.user("u").put({"visits": 1}),
        "run once": lambda: store.once(f"task of {thread}", lambda: 1, fingerprint="same"),
        "run once, finished": lambda: store.once(
            f"task of {thread}", lambda: 1, fingerprint="same"
        ),
        "turn": lambda: take_turn(conversation),
        "newest 20": lambda: list_newest(store),
    }


MOST_ROUND_TRIPS = {
    "append": 1,
    "last 20": 1,
    "context": 1,
    "user get": 1,
    "user update": 2,  # read and compare-and-swap
    "user put": 1,  # with its record
    "run once": 3,  # look, claim and complete
    "run once, finished": 1,
    "turn": 3,  # read beside the claim, and store
    "newest 20": 1,
}


async def test_the_engine_is_asked_as_often_whatever_the_length_of_the_history() -> None:
    engine = Asked("memory://")
    asked: dict[int, dict[str, int]] = {SHORT: {}, LONG: {}}
    async with stateward.Store(engine, spill=False) as store:  # type: ignore[arg-type]
        for length, times in asked.items():
            await store.thread(f"t-{length}", user="u").append(*TURN * (length // 2))
            for name, call in calls_of(store, f"t-{length}").items():
                before = engine.times
                await call()
                times[name] = engine.times - before
    assert asked[SHORT] == asked[LONG]
    assert {n: t for n, t in asked[LONG].items() if t > MOST_ROUND_TRIPS[n]} == {}


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(tmp_path_factory.mktemp("guard"), "valkey") as server:
        yield server


def served(asking: redis.Redis) -> tuple[int, int]:
    """Commands that the server ran, those inside of scripts included, and reads off its sockets."""
    said: dict[str, Any] = asking.info("everything")
    commands = [
        value["calls"]
        for name, value in said.items()
        if name.startswith("cmdstat_") and name != "cmdstat_info"
    ]
    return sum(commands), said["total_reads_processed"]


@pytest.mark.verify
async def test_a_server_runs_as_many_commands_for_a_long_history_as_for_a_short_one(
    valkey: RedisServer,
) -> None:
    asked: dict[int, dict[str, tuple[int, int]]] = {SHORT: {}, LONG: {}}
    async with stateward.open(valkey.url) as store:
        for length, found in asked.items():
            await store.thread(f"t-{length}", user="u").append(*TURN * (length // 2))
            for name in ("append", "last 20", "context", "user get", "user put"):
                found[name] = await least(valkey, calls_of(store, f"t-{length}")[name])
    assert asked[SHORT] == asked[LONG]
    reads = {name: reads for name, (_, reads) in asked[LONG].items()}
    assert reads == dict.fromkeys(reads, 1), "more than one round trip"


async def least(server: RedisServer, call: Callable[[], Any]) -> tuple[int, int]:
    """Commands and reads of a call. Of several calls the fewest: other connections of the store
    may have something to say meanwhile."""
    seen = []
    asking = redis.Redis(port=server.port)
    for _ in range(6):
        before = served(asking)
        await call()
        after = served(asking)
        seen.append((after[0] - before[0], after[1] - before[1] - 1))  # this question is read, too
    asking.close()
    return min(each for each, _ in seen), min(each for _, each in seen)


@pytest.mark.verify
async def test_a_server_runs_few_more_commands_for_a_put_with_its_history(
    valkey: RedisServer,
) -> None:
    """Two for the record, one that tells of it, and now and then what keeps the log short."""
    asking = redis.Redis(port=valkey.port)
    commands = {}
    for keep in (0, 100):
        async with stateward.open(
            valkey.url, namespace=f"keep-{keep}", keep=keep, heartbeat=None
        ) as store:
            await store.user("u").put({"visits": 0})
            before, _ = served(asking)
            for number in range(PUTS):
                await store.user("u").put({"visits": number})
            commands[keep] = served(asking)[0] - before
    asking.close()
    assert commands[100] - commands[0] <= 3.25 * PUTS, commands
