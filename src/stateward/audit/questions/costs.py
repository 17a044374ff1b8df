"""15: the costs of a hundred agents."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record
from stateward.audit.report import Evidence


def judge(record: Record, limits: Thresholds) -> Finding:
    costs = record.costs
    assert costs is not None
    agents = int(limits["agents"])
    facts = [
        Evidence("resident memory per replica", _mb(costs.memory_a_replica), "MB"),
        Evidence("bytes written per turn", _rounded(costs.written_a_turn)),
    ]
    if costs.memory_a_replica is None:
        return Finding("unknown", "a replica's memory could not be measured here", tuple(facts))
    if (costs.pool is None) != (costs.max_connections is None):
        return Finding("unknown", "the number of connections allowed is unknown", tuple(facts))
    if costs.pool is not None:
        facts.append(Evidence(f"connections of {agents} agents", agents * costs.pool))
    if costs.pool is not None and costs.max_connections:
        part = 100 * agents * costs.pool / costs.max_connections
        facts.append(Evidence("of max_connections", round(part), "%"))
        summary = (
            f"{agents} agents may open {agents * costs.pool} of {costs.max_connections} connections"
        )
        now = costs.replicas * costs.pool
        if 100 * now / costs.max_connections >= limits["pools_fail_percent"]:
            summary = (
                f"{costs.replicas} replicas may open {now} of {costs.max_connections} connections"
            )
            return Finding("fail", summary, tuple(facts))
        # What there will be one day is a projection, which warns.
        if part >= limits["pools_fail_percent"]:
            return Finding("warn", f"{summary}: put a pooler in between", tuple(facts))
        if part >= limits["pools_warn_percent"]:
            return Finding("warn", summary, tuple(facts))
        return Finding("pass", summary, tuple(facts))
    summary = f"{_mb(costs.memory_a_replica)} MB per replica"
    if costs.written_a_turn is not None:
        summary += f", {round(costs.written_a_turn):,} bytes written per turn"
    return Finding("pass", summary, tuple(facts))


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
