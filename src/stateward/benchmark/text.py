"""A benchmark's result for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stateward.benchmark.figures import BY_HISTORY, OPERATIONS, BenchResult, Figures


def to_json(result: BenchResult) -> bytes:
    return msgspec.json.encode(result)


def columns() -> tuple[str, ...]:
    return ("operation", "callers", "history", *NUMBERS, "errors")


NUMBERS = ("calls", "p50 ms", "p95 ms", "p99 ms", "calls/s", "CPU µs")


def rows(result: BenchResult) -> Iterator[dict[str, Any]]:
    """Return one row for each cell, with values as they are shown."""
    for cell in result.cells:
        yield {
            "operation": OPERATIONS[cell.operation],
            "callers": cell.conversations,
            "history": cell.history if cell.operation in BY_HISTORY else None,
            "calls": cell.calls,
            "p50 ms": ms(cell.p50_ms),
            "p95 ms": ms(cell.p95_ms),
            "p99 ms": ms(cell.p99_ms),
            "calls/s": round(cell.per_second),
            "CPU µs": None if cell.cpu_us is None else round(cell.cpu_us),
            "errors": errors(cell) or 0,
        }


def ms(value: float | None) -> str | None:
    """Format milliseconds with three significant digits."""
    if value is None:
        return None
    return f"{value:,.3f}" if value < 1 else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def errors(cell: Figures) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in cell.errors.items())


def head(result: BenchResult) -> list[str]:
    """Return a paragraph on what was measured and how to read it."""
    notes = [
        f"{result.url}: {result.engine} {result.version}; {result.durability}",
        f"{result.environment['rounds']} rounds, {result.seconds:g} s in all; a turn is two "
        "messages of 500 bytes; CPU is this process's, for each call",
    ]
    if result.interrupted:
        notes.append("interrupted: what is missing was not measured")
    return notes
