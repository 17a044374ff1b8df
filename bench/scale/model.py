"""What follows from the figures by arithmetic, so that every number can be checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.scale.places import TITLES

GIGABIT = 125e6  # bytes a second
A_DAY, KEPT = 200_000, 30  # turns, and days: an example
ENGINES = ("sqlite", "redis", "postgres")


def rows(found: dict[str, Any]) -> Iterator[str]:
    """Markdown; a cell that was not measured stays empty."""
    costs = {e: {c["call"]: c for c in found.get("calls", {}).get(e, ())} for e in ENGINES}
    large = {e: (found.get("million", {}).get(e) or [None])[0] for e in ENGINES}
    crowds = {e: (found.get("open", {}).get(e) or [None])[-1] for e in ENGINES}
    lines = {
        "stored for a turn of 1,000 bytes: stored ÷ turns": _each(large, _stored),
        f"{A_DAY:,} turns a day, kept {KEPT} days: × {A_DAY * KEPT:,}": _each(
            large, lambda row: f"{_bytes_a_turn(row) * A_DAY * KEPT / 1e9:,.1f} GB"
        ),
        "client's processor for an agent's turn: full context + append": _each(
            costs, lambda row: f"{_sum(row, 'client_us'):,.0f} µs"
        ),
        "one process at most: 1 s ÷ that": _each(
            costs, lambda row: f"{1e6 / _sum(row, 'client_us'):,.0f} turns/s"
        ),
        "server's processor for the same": _each(
            costs, lambda row: f"{_sum(row, 'server_us'):,.0f} µs" if _serves(row) else ""
        ),
        "one core of a server at most": _each(
            costs,
            lambda row: f"{1e6 / _sum(row, 'server_us'):,.0f} turns/s" if _serves(row) else "",
        ),
        "bytes between them for a turn": _each(
            costs, lambda row: f"{_network(row):,.0f}" if _network(row) else ""
        ),
        "1 Gbit/s at most: 125 MB/s ÷ that": _each(
            costs, lambda row: f"{GIGABIT / _network(row):,.0f} turns/s" if _network(row) else ""
        ),
        "memory of 10,000 open conversations, idle: 10,000 × one": _each(
            crowds, lambda row: f"{row['idle_bytes'] / 100:,.0f} MB"
        ),
        "each holding its last 20 messages": _each(
            crowds, lambda row: f"{(row['idle_bytes'] + row['window_bytes']) / 100:,.0f} MB"
        ),
        "backup, restore, sweep of 1 GB of JSON": _each(
            large,
            lambda row: ", ".join(
                f"{row[name] / row['payload'] * 1e9:,.0f} s"
                for name in ("backup_seconds", "restore_seconds", "sweep_seconds")
            ),
        ),
    }
    yield f"| | {' | '.join(TITLES[engine] for engine in ENGINES)} |"
    yield f"| --- |{' --- |' * len(ENGINES)}"
    for what, cells in lines.items():
        if any(cells):
            yield f"| {what} | {' | '.join(cells)} |"


def _each(found: dict[str, Any], say: Any) -> list[str]:
    return [say(found[engine]) if found[engine] else "" for engine in ENGINES]


def _bytes_a_turn(row: dict[str, Any]) -> float:
    """Where the state must fit: memory on a server that keeps it there, otherwise the disk."""
    size: float = row["bytes"].get("memory", row["bytes"]["disk"])
    return size / (row["messages"] / 2)


def _stored(row: dict[str, Any]) -> str:
    where = "memory" if "memory" in row["bytes"] else "disk"
    return f"{_bytes_a_turn(row):,.0f} bytes of {where}"


def _sum(costs: dict[str, Any], what: str) -> float:
    return float(costs["full context"][what] + costs["append"][what])


def _serves(costs: dict[str, Any]) -> bool:
    return costs["append"]["server_us"] is not None


def _network(costs: dict[str, Any]) -> float:
    turn = (costs["full context"], costs["append"])
    return sum((call["sent"] or 0.0) + (call["received"] or 0.0) for call in turn)
