"""What Stateward must reach on PostgreSQL, row by row, against the driver by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.rounds import Cell, Work
from bench.targets import BLOCKING, STATEWARD, Cells, Row, context, growth, slowest

PAIRS = ((BLOCKING, "psycopg"), (STATEWARD, "psycopg pool"))


def rows_on_postgres(cells: Sequence[Cell]) -> list[Row]:
    """The rows that come from timed cells."""
    found = Cells(cells)
    rows = [*_beside_the_driver(found), *growth(found, BLOCKING, STATEWARD), *context(found, PAIRS)]
    return [replace(row, what=f"PostgreSQL: {row.what}") for row in rows]


def _beside_the_driver(cells: Cells) -> Iterator[Row]:
    for method in ("append", "last", "get", "update", "turn"):
        limit = 1.25 if method in ("append", "last") else None
        for name, other in PAIRS:
            for who, ratio in cells.against(Work(method), name, (other,), "p50"):
                yield Row(str(Work(method)), who, ratio, at_most=limit)
    for method, least in (("append", 2.6), ("last", 2.0)):
        work = Work(method, 100)
        for name, other in PAIRS:
            limit = least if name == STATEWARD else None
            for who, ratio in cells.against(work, name, (other,), "per_second"):
                yield Row(f"{work}: calls/s", who, ratio, at_least=limit)
    for name, limit in ((STATEWARD, 15.0), (BLOCKING, None)):
        yield from slowest(cells, Work("append", 100), name, limit)
