"""Each question on evidence made up for it: every verdict can be reached, none without cause."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from audit.auditing import TODAY, answer, judged
from stateward.audit import questions
from stateward.audit.config import THRESHOLDS
from stateward.audit.questions import QUESTIONS
from stateward.audit.questions.question import power
from stateward.audit.record import (
    Check,
    Conflicts,
    CostBySize,
    Costs,
    Doubling,
    Drill,
    Growing,
    Length,
    Level,
    LockRace,
    Look,
    Monitoring,
    Outage,
    Preferences,
    Read,
    Record,
    Sessions,
    Step,
    TaskRace,
    Tried,
    TurnRace,
    Updates,
    WorkflowRun,
)
from stateward.audit.report import Waiver
from stateward.audit.targets import PARTS
from stateward.audit.verdict import report
from stateward.audit.workloads.backup import WHY_NONE

SOURCE = Path(__file__).parent.parent.parent / "src" / "stateward" / "audit"
TURNS = [f"{who}/{number}" for number in range(50) for who in (0, 1)]
STORED = [(name, part) for name in TURNS for part in (0, 1)]
STEPS = [
    step
    for n in range(100)
    for step in (
        Step(n % 2, 2.0 * n, 2.0 * n + 0.5, "ok", "append", "t", [f"v{n}"]),
        Step(2, 2.0 * n + 1, 2.0 * n + 1.5, "ok", "read", "t", [f"v{m}" for m in range(n + 1)]),
    )
]


DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
APPEND_ONLY = {"appendonly": "yes", "appendfsync": "always", "maxmemory_policy": "noeviction"}


def level(**changed: Any) -> Level:
    good = Level(100, 10.0, 60.0, 60.0, 480, 0, [4.0, 5.0, 4.0], 1.0, 5.0, 9.0, 1.0, [])
    return replace(good, **changed)


def outage(**changed: Any) -> Outage:
    tried = [Tried("read", 0.1, 1.0, "error"), Tried("append", 0.1, 0.2, "kept")]
    good = Outage("the link is cut", True, 0.0, 2.0, tried, ["a", "b"], ["a", "b"], 0.5)
    return replace(good, **changed)


def checks(question: Any) -> list[Check]:
    """Every promise of a question, tried and kept."""
    promises = (*question.PROMISES, *getattr(question, "EXTREMES", ()))
    return [Check(promise.name, 20) for promise in promises]


def by_size(call: str, of: str, *took: float) -> CostBySize:
    sizes = [20, 200, 600, 1600] if of == "the conversation" else [0, 5000, 10_000, 15_000]
    return CostBySize(call, of, sizes, [[ms + 0.01 * n for n in range(20)] for ms in took])


def good() -> Record:
    """A record of a target that does everything right."""
    steps = ["a", "b", "c"]
    return Record(
        provides=list(PARTS),
        sessions=Sessions({"t": ["x"] * 30}, {"t": ["x"] * 30}),
        preferences=Preferences({"u": ({"a": 1}, 2)}, {"u": ({"a": 1}, 2)}),
        workflows=[WorkflowRun("w", steps, ["a"], "b", ["b", "c"], True)],
        sharing=[Look("turn", 1, 2, True), Look("preference", 2, 1, True)] * 3,
        drill=Drill(30, {"t": list(range(40))}, {"t": list(range(50))}, True, 1.0, 2.0, "store"),
        levels=[level(conversations=10), level()],
        lengths=[Length(10, 1.0, 2.0, 3.0), Length(1000, 1.2, 2.0, 3.0)],
        doubling=Doubling(3, 6, 60, 1.5, 6.0, 1.2, 4.0, 1.0),
        outages=[outage()],
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 15, "alarm", 0.5),
        turn_race=TurnRace(list(TURNS), list(STORED), 2),
        long_race=TurnRace(list(TURNS), list(STORED), 2),
        task_race=TaskRace(2, {"a": 1, "b": 1}, {"a": ["1", "1"], "b": ["2", "2"]}),
        lock_race=LockRace(2, 2, 2, 0),
        updates=Updates(100, 0, 100, 3),
        conflicts=Conflicts(20, 20, 20, 0, 20),
        steps=list(STEPS),
        growing=Growing(100, 1000, 101_000, 10**12, 30, 1000, 20, 121_000),
        costs=Costs(3, 4, 1000, 30_000_000, 10, 900.0),
        settings=Read("x", "1", "durable", dict(DURABLE)),
        fidelity=checks(questions.fidelity),
        windows=checks(questions.windows),
        keys=checks(questions.keys),
        isolation=checks(questions.isolation),
        lock_checks=checks(questions.locks),
        task_checks=checks(questions.tasks),
        workflow_checks=checks(questions.workflows),
        version_checks=checks(questions.conflicts),
        update_checks=checks(questions.updates),
        kill_checks=checks(questions.kills),
        lasting=checks(questions.keepsakes),
        retention=checks(questions.retention),
        effects=checks(questions.effects),
        orphans=checks(questions.orphans),
        erasure=checks(questions.erasure),
        context=checks(questions.context),
        costs_by_size=[
            by_size("append", "the conversation", 1.0, 1.1, 1.0, 1.1),
            by_size("load", "the store", 1.0, 0.9, 1.0, 1.0),
        ],
    )


def test_what_does_everything_right_passes_every_question() -> None:
    found = judged(good())
    assert {a.id: a.verdict for a in found.answers} == {q.id: "pass" for q in QUESTIONS}
    assert found.verdict == "pass"
    assert all(a.remedy == "" for a in found.answers)


def changes(**fields: Any) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        for name, value in fields.items():
            setattr(record, name, value)

    return change


def more(field: str, promise: str, differing: int) -> Callable[[Record], None]:
    """Another check, or one in the place of another."""

    def change(record: Record) -> None:
        kept = [check for check in getattr(record, field) if check.promise != promise]
        setattr(record, field, [*kept, Check(promise, 9, differing)])

    return change


def without_traces(record: Record) -> None:
    record.provides = [part for part in record.provides if part != "traces"]
    kept = [check for check in record.erasure or () if "server's files" not in check.promise]
    record.erasure = kept


def slow_reads(record: Record) -> None:
    tried = [Tried("read", 0.1, 9.0, "error")]
    record.outages = [outage(tried=tried)]


CASES: list[tuple[str, str, str, Callable[[Record], None]]] = [
    ("sessions", "fail", "lost", changes(sessions=Sessions({"t": ["x"] * 30}, {"t": []}))),
    ("sessions", "fail", "not as written", changes(
        sessions=Sessions({"t": [*"abcde"] * 6}, {"t": [*"edcba"] * 6}))),
    ("sessions", "unknown", "only 1", changes(sessions=Sessions({"t": ["x"]}, {"t": ["x"]}))),
    ("preferences", "fail", "1 user", changes(
        preferences=Preferences({"u": ({"a": 1}, 2)}, {"u": ({}, 0)}))),
    ("preferences", "fail", "version", changes(
        preferences=Preferences({"u": ({"a": 1}, 2)}, {"u": ({"a": 1}, 1)}))),
    ("preferences", "warn", "no version", changes(
        preferences=Preferences({"u": ({"a": 1}, None)}, {"u": ({"a": 1}, None)}))),
    ("workflows", "fail", "1 finished step ran again", changes(
        workflows=[WorkflowRun("w", ["a", "b"], ["a"], "b", ["a", "b"], True)])),
    ("workflows", "fail", "1 skipped", changes(
        workflows=[WorkflowRun("w", ["a", "b", "c"], ["a"], "b", ["c"], True)])),
    ("workflows", "fail", "never finished", changes(
        workflows=[WorkflowRun("w", ["a", "b"], ["a"], "b", ["b"], False)])),
    ("workflows", "unknown", "killed", changes(workflows=[])),
    ("sharing", "fail", "1 read of 2", changes(
        sharing=[Look("turn", 1, 2, False, "old"), Look("preference", 1, 2, True)])),
    ("sharing", "unknown", "no replica read", changes(sharing=[])),
    ("sharing", "unknown", "only 2 reads", changes(
        sharing=[Look("turn", 1, 2, True), Look("preference", 1, 2, True)])),
    ("backup", "fail", "did not come back", changes(
        drill=Drill(30, {"t": list(range(20))}, {"t": list(range(50))}, True, 1.0, 2.0, "store"))),
    ("backup", "fail", "users' state did not come back as it was", changes(
        drill=Drill(30, {"t": list(range(40))}, {"t": list(range(50))}, False, 1.0, 2.0, "store"))),
    ("latency", "fail", "over 100 ms in 3 of 3", changes(
        levels=[level(p95=150.0, windows=[150.0] * 3)])),
    ("latency", "warn", "a stall in one of 3", changes(
        levels=[level(p95=150.0, windows=[1.0, 300.0, 1.0])])),
    ("latency", "warn", "p99 400 ms", changes(levels=[level(p99=400.0)])),
    ("latency", "fail", "% of calls failed", changes(
        levels=[level(failed=10, errors={"TimeoutError": 10})])),
    ("latency", "fail", "32.3 % of calls failed at 60 calls/s over 100 conversations: 190 × E",
     changes(levels=[level(conversations=10, intended=61.0), level(
         failed=190, seconds=9.8, lookups=200, errors={"E": 190}, lag=50.0)])),
    ("latency", "fail", "100 % of calls failed", changes(levels=[level(
        lookups=0, failed=600, achieved=0.0, windows=[], p50=0.0, p95=0.0, p99=0.0,
        errors={"JSONDecodeError": 600})])),
    ("latency", "fail", "100 % of calls failed", changes(levels=[
        level(conversations=10, intended=61.0, failed=9, errors={"E": 9}),
        level(lookups=0, failed=600, achieved=0.0, windows=[], p50=0.0, p95=0.0, p99=0.0,
              errors={"E": 600})])),
    ("latency", "fail", "over 100 ms in 3 of 3", changes(levels=[
        level(conversations=10, intended=61.0), level(p95=200.0, windows=[200.0] * 3)])),
    ("latency", "unknown", "lagged", changes(
        levels=[level(p95=150.0, windows=[150.0] * 3, lag=60.0)])),
    ("latency", "unknown", "lagged 5.1 ms", changes(levels=[level(lag=5.1)])),
    ("latency", "unknown", "80 % of the intended", changes(levels=[level(achieved=48.0)])),
    ("latency", "fail", "over 100 ms in 3 of 3", changes(
        levels=[level(p95=900.0, windows=[900.0] * 3, achieved=48.0)])),
    ("latency", "unknown", "only 20 lookups", changes(levels=[level(lookups=20)])),
    ("concurrency", "fail", "calls fail: 100 % at 100 conversations (JSONDecodeError)", changes(
        levels=[level(conversations=10), level(
            lookups=0, failed=600, achieved=0.0, windows=[], p50=0.0, p95=0.0, p99=0.0,
            errors={"JSONDecodeError": 600})])),
    ("concurrency", "fail", "does not hold", changes(
        levels=[level(p95=150.0, windows=[150.0] * 3)])),
    ("concurrency", "fail", "30.0 times as long", changes(
        lengths=[Length(10, 1.0, 2.0, 3.0), Length(1000, 30.0, 40.0, 50.0)])),
    ("concurrency", "warn", "5.0 times as long", changes(
        lengths=[Length(10, 1.0, 2.0, 3.0), Length(1000, 5.0, 6.0, 7.0)])),
    ("concurrency", "unknown", "too few", changes(levels=[level(conversations=1)])),
    ("concurrency", "unknown", "lagged", changes(
        levels=[level(p95=150.0, windows=[150.0] * 3, lag=60.0)])),
    ("concurrency", "unknown", "lagged", changes(levels=[level(conversations=10, lag=5.1)])),
    ("concurrency", "unknown", "80 % of the intended", changes(levels=[level(achieved=48.0)])),
    ("concurrency", "warn", "a stall in one of 3", changes(
        levels=[level(p95=150.0, windows=[1.0, 300.0, 1.0])])),
    ("concurrency", "warn", "first lookups of a new replica take 10.0 times", changes(
        doubling=Doubling(3, 6, 60, 12.0, 30.0, 1.2, 4.0, 1.0))),
    ("concurrency", "unknown", "lagged 9.0 ms while replicas joined", changes(
        doubling=Doubling(3, 6, 60, 1.5, 6.0, 1.2, 4.0, 9.0))),
    ("concurrency", "unknown", "join under load", changes(
        doubling=Doubling(3, 6, 9, 1.5, 6.0, 1.2, 4.0, 1.0))),
    ("outage", "fail", "1 of 2 accepted turns lost", changes(outages=[outage(found=["a"])])),
    ("outage", "fail", "hung", changes(outages=[outage(hung=2)])),
    ("outage", "fail", "9.0 s to fail", slow_reads),
    ("outage", "fail", "incomplete history", changes(
        outages=[outage(tried=[Tried("read", 0.1, 0.1, "read", complete=False)])])),
    ("outage", "fail", "did not recover", changes(outages=[outage(recovery=None)])),
    ("outage", "warn", "refused", changes(
        outages=[outage(tried=[Tried("append", 0.1, 0.1, "error")])])),
    ("outage", "warn", "1 error does not say", changes(
        outages=[outage(tried=[Tried("read", 0.1, 0.1, "error", "KeyError", False)])])),
    ("outage", "warn", "recovery took 9.0 s", changes(outages=[outage(recovery=9.0)])),
    ("outage", "fail", "1 turn duplicated", changes(outages=[outage(found=["a", "b", "b"])])),
    ("outage", "fail", "recovery took 40 s", changes(outages=[outage(recovery=40.0)])),
    ("outage", "unknown", "no fault", changes(outages=[outage(fired=False)])),
    ("outage", "unknown", "through a socket", changes(
        outages=None, notes={"outage": "it is reached through a socket"})),
    ("outage", "unknown", "did not reach the store", changes(
        outages=[outage(), outage(fired=False)])),
    ("outage", "fail", "2 reads returned stale data as if it were current", changes(
        outages=[outage(elsewhere=3, tried=[Tried("read", 0.4, 0.1, "read", missing=1)] * 2)])),
    ("outage", "fail", "a client that was connected does not reconnect", changes(
        outages=[outage(recovery=None)])),
    ("outage", "fail", "a new process cannot read what is stored (the link is cut): OSError",
     changes(outages=[outage(found=[], unreadable="OSError")])),
    ("outage", "warn", "a read took 5.0 s to fail", changes(
        outages=[outage(tried=[Tried("read", 0.1, 5.0, "error")])])),
    ("isolation", "fail", "missing or changed while others write (2 of 9 trials)", more(
        "isolation", "own writes complete", differing=2)),
    ("isolation", "fail", "contains messages of another (2 of 9 trials)", more(
        "isolation", "a conversation's own messages", differing=2)),
    ("erasure", "fail", "a spilled turn comes back", more(
        "erasure", "spilled turns", differing=2)),
    ("erasure", "unknown", "whether it is still stored is unknown", without_traces),
    ("kills", "pass", "concurrent writers lose or split turns without any kill: see question 10",
     more("kill_checks", "the same without a kill", differing=2)),
    ("slowdown", "fail", "append takes 1.0 ms at 20 messages of the conversation, 9.0 ms at 1,600",
     changes(costs_by_size=[by_size("append", "the conversation", 1.0, 2.0, 4.0, 9.0)])),
    ("slowdown", "fail", "load takes 0.3 ms at 0 messages of the store", changes(
        costs_by_size=[by_size("load", "the store", 0.3, 0.6, 0.9, 1.2)])),
    ("slowdown", "pass", "do not take noticeably longer", changes(
        costs_by_size=[by_size("load", "the store", 0.3, 0.9, 0.8, 1.2)])),
    ("slowdown", "pass", "do not take noticeably longer", changes(
        costs_by_size=[by_size("load", "the store", 0.3, 0.35, 0.4, 0.45)])),
    ("slowdown", "warn", "append takes 1.0 ms", changes(
        costs_by_size=[by_size("append", "the conversation", 1.0, 1.1, 1.4, 2.0)])),
    ("slowdown", "unknown", "too few sizes", changes(
        costs_by_size=[CostBySize("load", "the store", [0, 100], [[1.0] * 20] * 2)])),
    ("locks", "warn", "takes no fence", changes(
        provides=[part for part in PARTS if part != "fences"], lock_race=None)),
    ("monitoring", "fail", "percentiles", changes(
        monitoring=Monitoring("m", None, {}, True, 15, "alarm", 0.5))),
    ("monitoring", "fail", "no alarm", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 15, None, None))),
    ("monitoring", "fail", "only after 70 s", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 15, "a", 70.0))),
    ("monitoring", "unknown", "no outage", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, False, 0, None, None))),
    ("monitoring", "unknown", "could be caused: it is reached through a socket", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, False, 0, None, None),
        notes={"monitoring": "it is reached through a socket"})),
    ("monitoring", "unknown", "only 3 writes", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 3, None, None))),
    ("races", "fail", "1 lost turn", changes(turn_race=TurnRace(TURNS, STORED[2:], 2))),
    ("races", "fail", "1 lost turn of 100, in a long conversation", changes(
        long_race=TurnRace(TURNS, STORED[2:], 2))),
    ("races", "unknown", "long conversations", changes(long_race=None)),
    ("monitoring", "fail", "count 6 where 60 lookups were made", changes(
        monitoring=Monitoring("m", 6, {"p50": 1, "p95": 2, "p99": 3}, True, 15, "a", 0.5, 60, 6))),
    ("monitoring", "fail", "a p95 of 1.0 ms where half of the lookups take more than 50 ms",
     changes(monitoring=Monitoring("m", 60, {"p50": 0.001, "p95": 0.001, "p99": 0.001}, True, 15,
                                   "a", 0.5, 60, 60, 0.05))),
    ("monitoring", "fail", "'a' fired before anything was wrong", changes(
        monitoring=Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 15, "a", 0.5,
                              early="a"))),
    ("monitoring", "fail", "a p95 of 1.0 ms where one lookup in twelve takes more than 60 ms",
     changes(monitoring=Monitoring("m", 60, {"p50": 0.001, "p95": 0.001, "p99": 0.001}, True, 15,
                                   "a", 0.5, 60, 60, 0.001, "", 0.06, 0.001, 0.001))),
    ("monitoring", "pass", "fired when the store was down",  # this machine is as slow as that
     changes(monitoring=Monitoring("m", 60, {"p50": 0.001, "p95": 0.001, "p99": 0.001}, True, 15,
                                   "a", 0.5, 60, 60, 0.001, "", 0.06, 0.03, 0.001))),
    ("outage", "fail", "spilled turns were stored in another order (the link is cut)", changes(
        outages=[outage(in_turn=["b", "a"])])),
    ("growth", "fail", "every update of a user's state adds 950 bytes", changes(
        growing=Growing(100, 1000, 101_000, 10**12, 30, 1000, 20, 121_000, 100, 1000, 216_000))),
    ("growth", "fail", "every update of a user's state adds 900 bytes", changes(
        growing=Growing(100, 1000, 101_000, 10**12, 30, 1000, 20, 121_000, 100, 1000, 216_000,
                        100, 306_000))),
    ("growth", "pass", "old versions of a user's state are kept: 95,000 bytes after 100", changes(
        growing=Growing(100, 1000, 101_000, 10**12, 30, 1000, 20, 121_000, 100, 1000, 216_000,
                        100, 226_000))),
    ("workflows", "fail", "0 finished steps ran again, 3 skipped", changes(
        workflows=[WorkflowRun("w", ["a", "b", "c"], ["a"], "b", ["b", "c"], True),
                   WorkflowRun("x", ["a", "b", "c"], [], "", [], True)])),
    ("outage", "fail", "1 accepted change of users' state lost (the link is cut)", changes(
        outages=[outage(changed=["put/1", "put/2"], kept_changes=["put/1"])])),
    ("slowdown", "fail", "get_user takes 200 ms, one call at a time", changes(
        costs_by_size=[by_size("get_user", "the store", 200.0, 200.0, 200.0, 200.0)])),
    ("races", "fail", "1 duplicated turn", changes(
        turn_race=TurnRace(TURNS, STORED + STORED[-2:], 2))),
    ("races", "fail", "2 split turns", changes(
        turn_race=TurnRace(TURNS, [STORED[0], STORED[2], STORED[1], *STORED[3:]], 2))),
    ("races", "fail", "reordered", changes(
        turn_race=TurnRace(TURNS, STORED[4:6] + STORED[:4] + STORED[6:], 2))),
    ("races", "fail", "can no longer be read", changes(
        turn_race=TurnRace(TURNS, [], 2, "JSONDecodeError"))),
    ("races", "fail", "could not be written", changes(
        turn_race=TurnRace(TURNS, STORED, 2, "", {"JSONDecodeError": 9}))),
    ("races", "fail", "1 task of 1 ran more than once", changes(
        task_race=TaskRace(1, {"a": 2}, {"a": ["1", "1"]}))),
    ("races", "fail", "different results", changes(
        task_race=TaskRace(1, {"a": 1}, {"a": ["1", "2"]}))),
    ("races", "fail", "superseded holder", changes(lock_race=LockRace(2, 2, 1, 1))),
    ("races", "unknown", "locks", changes(lock_race=LockRace(2, 0, 0, 0))),
    ("races", "unknown", "tasks", changes(task_race=None)),
    ("races", "unknown", "too few", changes(turn_race=TurnRace(TURNS[:5], STORED[:10], 2))),
    ("updates", "fail", "7 of 100 acknowledged updates lost", changes(
        updates=Updates(100, 0, 93, 3))),
    ("updates", "fail", "counted twice", changes(updates=Updates(100, 2, 103, 3))),
    ("updates", "warn", "refused", changes(updates=Updates(100, 5, 100, 3))),
    ("updates", "unknown", "too few", changes(updates=Updates(3, 5, 3, 3))),
    ("conflicts", "fail", "5 conflicts of 20", changes(conflicts=Conflicts(20, 15, 15, 5, 15))),
    ("conflicts", "fail", "could not be resolved", changes(conflicts=Conflicts(20, 20, 20, 0, 9))),
    ("conflicts", "warn", "both versions", changes(conflicts=Conflicts(20, 20, 0, 0, 20))),
    ("conflicts", "unknown", "forced", changes(conflicts=Conflicts(0, 0, 0, 0, 0))),
    ("consistency", "fail", "stale read", changes(
        steps=[*STEPS, Step(3, 500.0, 501.0, "ok", "read", "t", ["v0"])])),
    ("consistency", "fail", "not even eventually", changes(
        steps=[*STEPS, Step(3, 500.0, 501.0, "ok", "append", "t", ["lost"]),
               Step(3, 502.0, 503.0, "ok", "read", "t", [f"v{n}" for n in range(100)])])),
    ("consistency", "unknown", "only", changes(steps=STEPS[:10])),
    ("growth", "fail", "full in 1 day", changes(growing=Growing(100, 0, 100_000, 10_100_000))),
    ("growth", "warn", "full in 50 days", changes(
        growing=Growing(100, 0, 100_000, 500_100_000, 30, 1000, 20, 120_000))),
    ("growth", "pass", "5 GB of memory would hold 500 days of turns", changes(
        growing=Growing(100, 0, 100_000, None, 30, 1000, 20, 120_000))),
    ("growth", "warn", "reports no limit; 5 GB of memory would hold 50 days of turns", changes(
        growing=Growing(100, 0, 1_000_000, None, 30, 1000, 20, 1_200_000))),
    ("growth", "unknown", "in a long conversation was not measured", changes(
        growing=Growing(100, 0, 100_000, None))),
    ("growth", "fail", "12.0 times the space with 1,000 messages", changes(
        growing=Growing(100, 0, 100_000, None, 30, 1000, 20, 100_000 + 20 * 12_000))),
    ("growth", "warn", "6.0 times the space", changes(
        growing=Growing(100, 0, 100_000, None, 30, 1000, 20, 100_000 + 20 * 6_000))),
    ("growth", "fail", "full in 1 day", changes(
        growing=Growing(100, 0, 100_000, 10_100_000, 30, 1000, 20, 100_000 + 20 * 6_000))),
    ("growth", "unknown", "size", changes(growing=Growing(100, None, None, None))),
    ("growth", "unknown", "did not grow", changes(growing=Growing(100, 5, 5, None))),
    ("costs", "fail", "3 replicas may open 120 of 100 connections", changes(
        costs=Costs(3, 40, 100, 30_000_000, 10, 900.0))),
    ("costs", "warn", "pooler", changes(costs=Costs(3, 4, 100, 30_000_000, 10, 900.0))),
    ("costs", "unknown", "measured", changes(costs=Costs(3, None, None, None, 10, None))),
    ("settings", "fail", "fsync off", changes(settings=Read("x", "1", "d", {"fsync": "off"}))),
    ("settings", "fail", "synchronous_commit off", changes(
        settings=Read("x", "1", "d", {"synchronous_commit": "off"}))),
    ("settings", "fail", "deletes state", changes(
        settings=Read("x", "1", "d", {"maxmemory_policy": "allkeys-lru"}))),
    ("settings", "fail", "appendonly no", changes(
        settings=Read("x", "1", "d", {"appendonly": "no", "appendfsync": "everysec"}))),
    ("settings", "warn", "appendfsync everysec", changes(
        settings=Read("x", "1", "d", APPEND_ONLY | {"appendfsync": "everysec"}))),
    ("settings", "unknown", "appendfsync: the store does not report it", changes(
        settings=Read("x", "1", "d", APPEND_ONLY | {"appendfsync": "unknown"}))),
    ("settings", "unknown", "declared, not verified", changes(
        settings=Read("x", "1", "d", {}), declared={"appendfsync": "always"})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "verdict", "said", "change"), CASES, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in CASES]
)
def test_what_was_recorded_decides_the_verdict(
    id: str, verdict: str, said: str, change: Callable[[Record], None]
) -> None:
    record = good()
    change(record)
    found = answer(judged(record), id)
    assert (found.verdict, said in found.summary) == (verdict, True), found.summary
    assert bool(found.remedy) == (verdict != "pass")


def test_a_turn_that_takes_little_more_room_in_a_long_conversation_is_no_finding() -> None:
    record = good()
    record.growing = Growing(100, 0, 100_000, None, 30, 1000, 20, 100_000 + 20 * 3_000)
    found = answer(judged(record), "growth")
    assert found.verdict == "pass"
    assert "times" not in found.summary
    assert {e.what: e.value for e in found.evidence}["more with a long history"] == 3.0


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
def test_no_evidence_means_unknown_never_a_pass(question: Any) -> None:
    for field in question.evidence:
        record = good()
        setattr(record, field, None)
        found = judged(record)
        assert answer(found, question.id).verdict == "unknown"
        assert found.verdict == "unknown"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
def test_a_part_that_a_target_lacks_is_absent_and_fails_the_verdict(question: Any) -> None:
    for part in question.needs:
        record = good()
        record.provides.remove(part)
        found = judged(record)
        if question.optional:
            assert question.id not in {each.id for each in found.answers}
            continue
        assert answer(found, question.id).verdict == "absent"
        assert found.verdict == "fail"


@pytest.mark.parametrize("part", ["tasks", "locks", "fences", "workflows", "versions", "keys"])
def test_a_part_that_a_target_lacks_fails_no_question_but_its_own(part: str) -> None:
    record = good()
    lost = {part, "fences"} if part == "locks" else {part}
    record.provides = [each for each in record.provides if each not in lost]
    for field, of in (("task_race", "tasks"), ("lock_race", "fences"), ("task_checks", "tasks")):
        if of in lost:
            setattr(record, field, None)
    found = {each.id: each.verdict for each in judged(record).answers}
    asked = [question for question in QUESTIONS if not question.optional]
    own = {question.id for question in asked if lost & set(question.needs)}
    assert {id for id, verdict in found.items() if verdict == "absent"} == own
    others = {id: verdict for id, verdict in found.items() if id not in own}
    weak = {"locks": "warn"} if part == "fences" else {}  # it says that there is no fence
    assert others == dict.fromkeys(others, "pass") | weak


def test_a_memory_without_keys_is_not_blamed_for_second_deliveries_twice() -> None:
    record = good()
    delivered = [("all/0", part) for part in (0, 1)]
    record.turn_race = TurnRace([*TURNS, "all/0"], [*STORED, *delivered, *delivered], 2)
    assert answer(judged(record), "races").verdict == "fail"
    record.provides.remove("keys")
    assert answer(judged(record), "races").verdict == "pass"
    assert answer(judged(record), "keys").verdict == "absent"
    record.turn_race = TurnRace(TURNS, STORED + STORED[-2:], 2)  # delivered by one replica, once
    assert answer(judged(record), "races").verdict == "fail"


def test_every_question_has_a_number() -> None:
    assert [question.number for question in QUESTIONS] == list(range(1, len(QUESTIONS) + 1))


def test_a_workload_that_could_not_be_carried_out_is_an_error() -> None:
    record = good()
    record.sessions = None
    record.problems["sessions"] = "OSError: no"
    found = judged(record)
    assert answer(found, "sessions").verdict == "error"
    assert found.verdict == "fail"


def test_a_waiver_counts_until_its_day_and_never_for_what_passes() -> None:
    record = good()
    record.updates = Updates(100, 0, 93, 3)
    waivers = {
        "updates": Waiver("one agent only", "2026-01-01"),
        "races": Waiver("x", "2030-01-01"),
    }
    found = report(record, THRESHOLDS, waivers, TODAY)
    assert found.verdict == "pass"
    assert answer(found, "updates").waived == waivers["updates"]
    assert answer(found, "races").waived is None
    late = report(record, THRESHOLDS, waivers, date(2026, 1, 2))
    assert late.verdict == "fail"


def test_a_question_of_which_a_part_was_not_tried_is_not_answered() -> None:
    record = good()
    record.skipped = ["history", "lock-races"]
    asked = {found.id for found in judged(record).answers}
    assert asked == {question.id for question in QUESTIONS} - {"concurrency", "races"}


def unanswered(**changed: Any) -> Level:
    """A load of which every call failed."""
    nothing = {"lookups": 0, "achieved": 0.0, "windows": [], "p50": 0.0, "p95": 0.0, "p99": 0.0}
    moments = [(0.0, 0.0, 0.0, 0.0, 60.0, 0.0, 60)]
    return level(failed=600, errors={"E": 600}, moments=moments, **nothing, **changed)


@pytest.mark.parametrize("id", ["latency", "concurrency"])
def test_calls_that_all_failed_have_no_latency_in_the_evidence(id: str) -> None:
    record = good()
    record.levels = [level(conversations=10), unanswered()]
    record.doubling = Doubling(3, 6, 0, 0.0, 0.0, 0.0, 0.0, 1.0)
    found = answer(judged(record), id)
    assert found.verdict == "fail"
    took = [fact.value for fact in found.evidence if fact.unit == "ms" and "lag" not in fact.what]
    assert took
    assert 0 not in took


def test_a_load_that_was_not_answered_is_no_point_of_the_curve() -> None:
    record = good()
    record.levels = [level(conversations=10), unanswered()]
    curve = judged(record).curves[0]
    assert [point.x for point in curve.points] == [10]


def test_reads_that_failed_have_no_latency_in_the_chart() -> None:
    record = good()
    tried = [
        Tried("read", 0.1, 0.001, "error"),
        Tried("read", 0.2, 0.001, "error"),
        Tried("read", 0.6, 0.5, "read"),
        Tried("read", 0.7, 0.001, "error"),
    ]
    record.outages = [outage(tried=tried)]
    (failed, mixed) = judged(record).timelines[-1].moments
    assert not failed.is_answered
    assert failed.failed == 2
    assert mixed.p50 == pytest.approx(500, rel=0.1)


def test_every_zero_says_which_rate_it_rules_out() -> None:
    (races,) = [a for a in judged(good()).answers if a.id == "races"]
    (lost,) = [e for e in races.evidence if e.what == "lost turns"]
    assert lost.power == "0 of 100: a rate above 1 in 33 would have been detected (95 % confidence)"
    assert power(4) == "0 of 4: a rate above 75 % would have been detected (95 % confidence)"
    assert power(3) == "tried 3 times: all held"
    assert power(1) == "tried once: it held"
    assert power(0) == "not tried"


@pytest.mark.parametrize("id", ["latency", "concurrency"])
@pytest.mark.parametrize(("failures", "severity"), [(10, "high"), (300, "critical")])
def test_calls_that_fail_are_not_called_slow(id: str, failures: int, severity: str) -> None:
    record = good()
    record.levels = [level(conversations=10), level(failed=failures, errors={"E": failures})]
    found = answer(judged(record), id)
    assert found.severity == severity
    assert "users get an error" in found.means
    record.levels = [level(p95=150.0, windows=[150.0] * 3)]
    slow = answer(judged(record), id)
    assert slow.severity == "medium"
    assert "users get an error" not in slow.means


def test_a_remedy_is_for_the_engine_at_hand() -> None:
    record = good()
    record.updates = Updates(100, 0, 93, 3)
    record.turn_race = TurnRace(TURNS, STORED[2:], 2)
    record.outages = [outage(found=["a"])]
    known = ("redis", "postgresql", "sqlite", "files")
    words = {"redis": "Lua", "postgresql": "FOR UPDATE", "sqlite": "BEGIN IMMEDIATE"}
    own = {"redis": "appendonly", "postgresql": "synchronous_commit", "sqlite": "synchronous full"}
    for engine in known:
        record.settings = Read(engine, "1", "durable", dict(DURABLE))
        remedies = {each.id: each.remedy for each in judged(record).answers}
        for name, word in words.items():
            assert (word in remedies["updates"]) == (name == engine)
        for name, word in own.items():
            assert (word in remedies["outage"]) == (name == engine)
        assert ("RPUSH" in remedies["races"]) == (engine == "redis")
    record.settings = None
    record.title = record.target = "naive:redis-document on valkey (started by the audit)"
    assert "Lua" in answer(judged(record), "updates").remedy


def test_a_remedy_is_for_the_finding_and_not_for_the_whole_question() -> None:
    record = good()
    record.turn_race = TurnRace(TURNS, STORED[2:], 2)
    assert "fence" not in answer(judged(record), "races").remedy
    more("windows", "load(last=0)", differing=2)(record)
    assert "last=0" in answer(judged(record), "windows").remedy
    assert "reverse" not in answer(judged(record), "windows").remedy
    record.settings = Read("x", "1", "d", {"fsync": "off"})
    assert "appendonly" not in answer(judged(record), "settings").remedy
    record.provides.remove("sizes")
    for id in ("settings", "growth"):
        assert "describe()" in answer(judged(record), id).remedy
        assert "appendonly" not in answer(judged(record), id).remedy


def test_a_slow_timeout_is_no_lost_turn() -> None:
    record = good()
    slow_reads(record)
    slow = answer(judged(record), "outage")
    assert (slow.severity, "hangs" in slow.means) == ("high", True)
    record.outages = [outage(found=["a"])]
    lost = answer(judged(record), "outage")
    assert (lost.severity, "gone" in lost.means) == ("critical", True)


def test_no_fault_is_blamed_for_what_concurrent_writers_lose_without_any() -> None:
    record = good()
    record.outages = [outage(found=["a"], elsewhere=3)]
    assert answer(judged(record), "outage").verdict == "fail"
    record.turn_race = TurnRace(TURNS, STORED[2:], 2)
    found = answer(judged(record), "outage")
    assert found.verdict == "unknown"
    assert "(the link is cut)" not in found.summary
    assert "question 10" in found.summary
    record.outages = [outage(found=["a"])]  # nothing else wrote: so the fault lost it
    assert answer(judged(record), "outage").verdict == "fail"


def test_no_fault_is_blamed_for_a_second_delivery_that_is_never_noticed() -> None:
    record = good()
    record.outages = [outage(accepted=["before/0"], found=["before/0", "before/0"])]
    assert "duplicated" in answer(judged(record), "outage").summary
    more("keys", "redelivered immediately", differing=9)(record)
    assert answer(judged(record), "outage").verdict == "pass"
    record.outages = [outage(found=["a", "b", "b"])]
    assert "duplicated" in answer(judged(record), "outage").summary


def test_the_headline_counts_as_the_tiles_do_and_is_short() -> None:
    record = good()
    record.provides.remove("tasks")
    record.updates = Updates(100, 0, 93, 3)
    record.turn_race = TurnRace(TURNS, STORED[2:] + STORED[-2:], 2)
    found = judged(record)
    counts = dict.fromkeys(("fail", "absent"), 0)
    for each in found.answers:
        counts[each.verdict] = counts.get(each.verdict, 0) + 1
    asked = len(found.answers)
    assert f"{counts['fail']} of {asked} questions fail, {counts['absent']} ask" in found.sentence
    assert "; " not in found.sentence
    assert ": the" not in found.sentence


def test_what_a_backup_would_need_is_said() -> None:
    record = good()
    record.drill = None
    record.notes["backup"] = WHY_NONE
    assert "backup() and restore()" in answer(judged(record), "backup").summary


def test_what_could_not_be_looked_at_is_no_zero() -> None:
    record = good()
    record.turn_race = TurnRace(TURNS, [], 2, "JSONDecodeError")
    races = {e.what: e for e in answer(judged(record), "races").evidence}
    assert races["unreadable turns"].value == 100
    assert not {"lost turns", "duplicated turns", "split turns", "reordered turns"} & set(races)
    record.outages = [outage(unreadable="OSError")]
    (lost,) = [e for e in answer(judged(record), "outage").evidence if "lost" in e.what]
    assert lost.power == "not tried"
    record.steps = [*STEPS, Step(3, 500.0, 501.0, "ok", "read", "t", ["v0"])]
    (appends,) = [e for e in answer(judged(record), "consistency").evidence if e.what == "appends"]
    assert appends.power == ""


def test_workloads_faults_and_questions_know_nothing_of_each_other() -> None:
    parts = ("workloads", "faults", "questions")
    seen = 0
    for part in parts:
        for path in (SOURCE / part).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    seen += 1
                    others = [f"stateward.audit.{other}" for other in parts if other != part]
                    assert not node.module.startswith(tuple(others)), path
    assert seen > 50
