"""The figures as tables of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.scale.model import rows
from bench.scale.places import TITLES

Row = dict[str, Any]
Columns = dict[str, Callable[[Row], str]]


def markdown(found: dict[str, Any]) -> str:
    """Every section that was measured, and where."""
    parts = []
    for section, (title, columns) in SECTIONS.items():
        if found.get(section):
            parts += [f"### {title}", "", *_table(columns, found[section]), ""]
    parts += ["### Calculated from these figures", "", *rows(found), ""]
    return "\n".join([*parts, f"{found.get('setting', '')}."])


def _table(columns: Columns, engines: dict[str, list[Row]]) -> Iterator[str]:
    yield f"| engine | {' | '.join(columns)} |"
    yield f"| --- |{' --- |' * len(columns)}"
    for engine in TITLES:
        for row in engines.get(engine, ()):
            yield f"| {TITLES[engine]} | {' | '.join(say(row) for say in columns.values())} |"


def _ms(value: float) -> str:
    return f"{value:,.2f} ms" if value < 10 else f"{value:,.0f} ms"


def _kb(value: float) -> str:
    return f"{value / 1000:,.1f} KB"


def _mb(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"


def _grown(calls: dict[str, float]) -> str:
    """Times, and in brackets how often the time in a store of 1,000 messages."""
    return ", ".join(
        f"{_ms(calls[f'{where}_ms'])} ({calls[f'{where}_growth']:.2f} ×)"
        for where in ("few", "any")
    )


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} µs"


def _bytes(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


SECTIONS: dict[str, tuple[str, Columns]] = {
    "calls": (
        "CPU time of a call, with 100 in flight",
        {
            "call": lambda row: row["call"],
            "client": lambda row: _us(row["client_us"]),
            "server": lambda row: _us(row["server_us"]),
            "bytes sent": lambda row: _bytes(row["sent"]),
            "bytes received": lambda row: _bytes(row["received"]),
        },
    ),
    "open": (
        "Open conversations in one process",
        {
            "open": lambda row: f"{row['conversations']:,}",
            "memory, idle": lambda row: _kb(row["idle_bytes"]),
            "with 20 messages held": lambda row: _kb(row["window_bytes"]),
            "in the cache": lambda row: _kb(row["cached_bytes"]),
            "all concurrently": lambda row: f"{row['at_once']:,.0f} turns/s",
            "p99 of that": lambda row: _ms(row["at_once_p99_ms"]),
            "client CPU per turn": lambda row: f"{row['cpu_us']:,.0f} µs",
            "at a steady rate": lambda row: f"{row['paced']:,.0f} turns/s",
            "p50 / p99 of that": lambda row: (
                f"{_ms(row['paced_p50_ms'])} / {_ms(row['paced_p99_ms'])}"
            ),
        },
    ),
    "processes": (
        "Processes on one store",
        {
            "processes": lambda row: str(row["processes"]),
            "conversations": lambda row: f"{row['processes'] * row['conversations'] + 1:,}",
            "turns": lambda row: f"{row['turns']:,}",
            "together": lambda row: f"{row['per_second']:,.0f} turns/s",
            "p50": lambda row: _ms(row["p50_ms"]),
            "p99": lambda row: _ms(row["p99_ms"]),
            "lost, repeated, split": lambda row: (
                f"{row['lost']}, {row['repeated']}, {row['split']}"
            ),
        },
    ),
    "million": (
        "A million messages in one store",
        {
            "messages": lambda row: f"{row['messages']:,}",
            "filled at": lambda row: f"{row['filled_per_second']:,.0f} turns/s",
            "of JSON": lambda row: _mb(row["payload"]),
            "stored": lambda row: ", ".join(
                f"{_mb(size)} {where}" for where, size in row["bytes"].items()
            ),
            "last 20: few, any conversation": lambda row: _grown(row["last"]),
            "append": lambda row: _grown(row["append"]),
            "backup": lambda row: f"{row['backup_seconds']:,.0f} s, {_mb(row['backup_bytes'])}",
            "restore": lambda row: f"{row['restore_seconds']:,.0f} s",
            "sweep of nothing": lambda row: _ms(row["idle_sweep_ms"]),
            "of everything; a step p50, p99": lambda row: (
                f"{row['sweep_seconds']:,.0f} s; "
                f"{_ms(row['sweep_step_p50_ms'])}, {_ms(row['sweep_step_p99_ms'])}"
            ),
        },
    ),
    "workflow": (
        "Model calls in one workflow, over a conversation of 20 tokens a call",
        {
            "calls": lambda row: f"{row['calls']:,}",
            "a step returns": lambda row: row["form"],
            "stored": lambda row: ", ".join(
                f"{size / 1e6:,.1f} MB {where}" for where, size in row["bytes"].items()
            ),
            "a call": lambda row: _ms(row["call_ms"]),
            "the last resume": lambda row: _ms(row["resume_ms"]),
            "its CPU time": lambda row: _ms(row["resume_cpu_ms"]),
            "its round trips": lambda row: str(row["round_trips"]),
        },
    ),
    "slots": (
        "What a call asks of a cluster of three primaries",
        {
            "call": lambda row: row["call"],
            "nodes asked": lambda row: f"{row['nodes']:.1f}",
            "round trips": lambda row: f"{row['round_trips']:.1f}",
            "commands run": lambda row: f"{row['commands']:.0f}",
        },
    ),
}
