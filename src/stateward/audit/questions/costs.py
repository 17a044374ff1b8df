"""What a hundred agents take."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record
from stateward.audit.report import Evidence


def judge(record: Record, limits: Thresholds) -> Finding:
    seen = record.costs
    assert seen is not None
    agents = int(limits["agents"])
    facts = [
        Evidence("resident memory per replica", _mb(seen.memory_a_replica), "MB"),
        Evidence("bytes written per turn", _rounded(seen.written_a_turn)),
    ]
    if seen.memory_a_replica is None:
        return Finding("unknown", "a replica's memory could not be measured here", tuple(facts))
    if (seen.pool is None) != (seen.max_connections is None):
        return Finding("unknown", "the number of connections allowed is unknown", tuple(facts))
    if seen.pool is not None:
        facts.append(Evidence(f"connections of {agents} agents", agents * seen.pool))
    if seen.pool is not None and seen.max_connections:
        part = 100 * agents * seen.pool / seen.max_connections
        facts.append(Evidence("of max_connections", round(part), "%"))
        said = (
            f"{agents} agents may open {agents * seen.pool} of {seen.max_connections} connections"
        )
        now = seen.replicas * seen.pool
        if 100 * now / seen.max_connections >= limits["pools_fail_percent"]:
            said = f"{seen.replicas} replicas may open {now} of {seen.max_connections} connections"
            return Finding("fail", said, tuple(facts))
        # What there will be one day is a projection, which warns.
        if part >= limits["pools_fail_percent"]:
            return Finding("warn", f"{said}: put a pooler in between", tuple(facts))
        if part >= limits["pools_warn_percent"]:
            return Finding("warn", said, tuple(facts))
        return Finding("pass", said, tuple(facts))
    said = f"{_mb(seen.memory_a_replica)} MB per replica"
    if seen.written_a_turn is not None:
        said += f", {round(seen.written_a_turn):,} bytes written per turn"
    return Finding("pass", said, tuple(facts))


def _mb(count: int | None) -> float | None:
    return None if count is None else round(count / 1e6, 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)


QUESTION = Question(
    "costs",
    15,
    "What are the hidden costs at 100+ concurrent agents?",
    "Connections, memory and bytes written grow with every agent, and limits are hit together.",
    ("threads",),
    ("costs",),
    "Lower the pool of each replica, put a pooler in between, or raise the limit of the server.",
    judge,
    ("growth",),
    severity="medium",
    means="New agents are refused, or the bill grows faster than their number.",
)
