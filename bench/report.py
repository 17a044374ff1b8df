"""The figures as tables for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.rounds import Cell
from bench.targets import Row, title

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


@dataclass
class Report:
    """All that a run found out."""

    setting: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def text(self) -> str:
        about = "  ".join(f"{name} {value}" for name, value in self.setting.items())
        parts = [about, "", *_details(self.cells), "", *_verdict(self.rows)]
        return "\n".join(parts)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self._plain(), indent=1) + "\n", encoding="utf-8")

    def write_into(self, page: Path) -> None:
        """Put the judged rows between the marks of a page; what was missed comes first."""
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{page} has no place for figures: {BEGIN} … {END}")
        table = "\n".join(_markdown(self.setting, self.rows))
        page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")

    def _plain(self) -> dict[str, Any]:
        rows = [
            asdict(row) | {"met": row.met, "missed_by": round(row.missed_by, 4)}
            for row in self.rows
        ]
        cells = [
            {
                "work": cell.work.method,
                "callers": cell.work.callers,
                "history": cell.work.history,
                "contestant": result.name,
                "loop": result.loop,
                "calls": result.calls,
                "p50_us": round(result.p50, 1),
                "p99_us": round(result.p99, 1),
                "per_second": round(result.per_second, 1),
                "p50_us_by_round": [round(value, 1) for value in result.by_round("p50")],
                "per_second_by_round": [round(v, 1) for v in result.by_round("per_second")],
            }
            for cell in self.cells
            for result in cell.results
        ]
        return {"setting": self.setting, "rows": rows, "cells": cells}


def _details(cells: Sequence[Cell]) -> list[str]:
    lines = []
    for cell in cells:
        head = ["p50 µs", "(rounds)", "p99 µs", "calls/s", "(rounds)"]
        table = [[str(cell.work), *head]]
        for result in cell.results:
            rounds, rates = result.by_round("p50"), result.by_round("per_second")
            table.append(
                [
                    f"  {title(result)}",
                    f"{result.p50:,.0f}",
                    f"({min(rounds):,.0f}–{max(rounds):,.0f})",
                    f"{result.p99:,.0f}",
                    f"{result.per_second:,.0f}",
                    f"({min(rates):,.0f}–{max(rates):,.0f})",
                ]
            )
        lines += [*_aligned(table, [44, 9, 16, 10, 10, 18]), ""]
    return lines


def _verdict(rows: Sequence[Row]) -> list[str]:
    table = [["what", "who", "target", "measured", "(rounds)", "verdict"]]
    for row in rows:
        m = row.measured
        spread = "" if m.low == m.high else f"({_number(m.low)}–{_number(m.high)})"
        measured = f"{_number(m.median)} {row.unit}".strip()
        table.append([row.what, row.who, _target(row), measured, spread, _judged(row)])
    widths = [max(len(line[n]) for line in table) + 2 for n in range(6)]
    lines = _aligned(table, widths, left=(0, 1, 5))
    judged = [row for row in rows if row.met is not None]
    missed = sum(not row.met for row in judged)
    lines += ["", f"{len(judged) - missed} of {len(judged)} targets met"]
    return lines


def _markdown(setting: dict[str, Any], rows: Sequence[Row]) -> list[str]:
    judged = sorted((row for row in rows if row.met is not None), key=lambda row: bool(row.met))
    met = sum(bool(row.met) for row in judged)
    lines = [
        f"{met} of {len(judged)} targets met.",
        "",
        "| what | who | target | measured | rounds | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in judged:
        m = row.measured
        spread = "" if m.low == m.high else f"{_number(m.low)}–{_number(m.high)}"
        measured = f"{_number(m.median)} {row.unit}".strip()
        cells = (row.what, row.who, _target(row), measured, spread, _judged(row))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "; ".join(f"{name}: {value}" for name, value in setting.items())]
    return lines


def _target(row: Row) -> str:
    if row.at_most is not None:
        return f"≤ {row.at_most:g} {row.unit}".strip()
    return "" if row.at_least is None else f"≥ {row.at_least:g} {row.unit}".strip()


def _judged(row: Row) -> str:
    if row.met is None:
        return ""
    return "met" if row.met else f"MISSED by {row.missed_by:.0%}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def _aligned(
    table: Sequence[Sequence[str]], widths: Sequence[int], left: Sequence[int] = (0,)
) -> list[str]:
    return [
        "".join(
            cell.ljust(width) if n in left else cell.rjust(width - 2) + "  "
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
