"""A page of an inbox costs the same whether six hundred questions wait or six thousand.

Nothing here measures time: round trips, steps of SQLite's virtual machine, and commands that a
Redis server carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
import redis
from servers.redis import running

from stateward import sync
from stateward.codec import encode
from stateward.engines.registry import create_sync_engine, parse
from stateward.kinds import QUESTION
from stateward.ops import Commit, Entity, Op, Outcome, Put, SetHead
from stateward.sync.engines.passthrough import Passthrough
from stateward.world import World

FEW, MANY = 600, 6_000
PAGE = 20
TOGETHER = 50  # commits of one batch
ASKED: dict[str, dict[str, Any]] = {
    "all": {},
    "of a signal": {"signal": "approval"},
    "for a team": {"for_": "team"},
    "for a team, of a signal": {"for_": "team", "signal": "approval"},
    "for one who has few": {"for_": "lena"},
    "of a user who has few": {"user": "u-7"},
}


def question(count: int, number: int) -> Commit:
    """As a workflow asks it. Lena and the user have as many however many others there are."""
    few = number % (count // PAGE) == 0
    for_ = "lena" if few else ("team", "sales", "legal")[number % 3]
    signal = ("approval", "review")[number % 2]
    asked = {"ask": {"amount": number}, "for": for_, "workflow": f"w-{number}", "kind": "refund"}
    asked |= {"signal": signal, "wait": f"wait {signal}#1", "asked": float(number), "until": None}
    return Commit(
        Entity(f"of {count}", QUESTION, f"{number:017d}-id"),
        f"op-{count}-{number}",
        (SetHead(status=for_, label=signal), Put(QUESTION, encode(asked, "the question"))),
        owner="u-7" if few else f"another-{number % 11}",
    )


def fill(url: str) -> None:
    engine: Any = create_sync_engine(parse(url), World())
    engine.open()
    for count in (FEW, MANY):
        commits = [question(count, number) for number in range(count)]
        for start in range(0, count, TOGETHER):
            engine.execute(commits[start : start + TOGETHER])
    engine.close()


class Counted(Passthrough):
    """An engine that counts how often it is asked."""

    times = 0

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.times += 1
        return super().execute(ops, deadline=deadline)


def costs(url: str, counted: Callable[[], int]) -> dict[str, list[int]]:
    """By what is asked: what the first page and the one after it cost, of few and of many."""
    found: dict[str, list[int]] = {}
    engine = Counted(create_sync_engine(parse(url), World()))
    for count in (FEW, MANY):
        with sync.Store(engine, namespace=f"of {count}", heartbeat=None, spill=False) as store:
            for name, asked in ASKED.items():
                for _ in range(2):  # by the second time statements and scripts are ready
                    figures = []
                    after: str | None = None
                    for number in range(2):
                        times, before = engine.times, counted()
                        page = list(store.waiting(**asked, after=after, limit=PAGE))
                        figures.append(counted() - before)
                        assert engine.times - times == 1, f"{name}: a page is one round trip"
                        whole = PAGE if "few" not in name or not number else 0
                        assert len(page) == whole, name
                        after = page[-1].id if page else None
                found[name] = found.get(name, []) + figures
    return found


def assert_flat(found: dict[str, list[int]]) -> None:
    for name, (first, second, first_of_many, second_of_many) in found.items():
        assert 0 < first_of_many <= first, (name, found)
        assert second_of_many <= second, (name, found)


def test_sqlite_takes_the_same_steps_for_an_inbox_of_ten_times_as_many(tmp_path: Path) -> None:
    steps = 0

    def ran(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def attach(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ran)

    url = f"sqlite:///{tmp_path}/a.db"
    fill(url)
    apsw.connection_hooks.append(attach)
    try:
        found = costs(url, lambda: steps)
    finally:
        apsw.connection_hooks.remove(attach)
    assert_flat(found)


@pytest.mark.verify
def test_redis_carries_out_the_same_commands_for_an_inbox_of_ten_times_as_many(
    tmp_path: Path,
) -> None:
    with (
        running(tmp_path, "valkey", "--appendonly", "no") as server,
        redis.Redis(port=server.port) as client,
    ):

        def carried_out() -> int:
            """Those that scripts call are commands too; the looks themselves are not counted."""
            stats: Any = client.info("commandstats")
            return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")

        fill(server.url)
        assert_flat(costs(server.url, carried_out))
