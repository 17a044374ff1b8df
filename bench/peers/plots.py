"""The images of the page."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.peers import charts
from bench.peers.comparing import KINDS, Figures
from bench.peers.table import ENGINES, TITLES
from bench.peers.tables import HEADS, name, shown
from bench.rounds import HISTORY

Row = dict[str, Any]


def images(figures: Figures) -> dict[str, str]:
    """SVG by the name of its file."""
    cells = figures["cells"]
    found = {}
    crowd = [cell for cell in cells if cell["callers"] > 1]
    if crowd:
        title = "Turns appended per second, 100 concurrent conversations (logarithmic)"
        found["peers-crowd.svg"] = charts.bars(title, _groups(crowd, "per_second"))
    tasks = [cell for cell in cells if cell["work"] == "once"]
    if tasks:
        title = "A task that runs once, ms (logarithmic)"
        found["peers-tasks.svg"] = charts.bars(title, _groups(tasks, "p50_us"))
    for engine in ENGINES:
        for work in ("append", "last"):
            here = [c for c in cells if (c["engine"], c["work"], c["callers"]) == (engine, work, 1)]
            here = [cell for cell in here if cell["history"] != HISTORY]  # not in those rounds
            if here:
                title = f"{HEADS[work].capitalize()} on {TITLES[engine]} by length of conversation"
                drawn = charts.lines(title, "messages", "ms", _lines(here))
                found[f"peers-{work}-{engine}.svg"] = drawn
    return found


def _groups(cells: Sequence[Row], figure: str) -> list[tuple[str, list[charts.Bar]]]:
    groups = []
    for engine in ENGINES:
        here = [cell for cell in cells if cell["engine"] == engine]
        if here:
            groups.append((TITLES[engine], [_bar(cell, figure) for cell in here]))
    return groups


def _bar(cell: Row, figure: str) -> charts.Bar:
    value = median(cell[figure])
    by = KINDS[figure][2]
    return charts.Bar(_plain(cell), cell["role"], value / by, shown(value, figure))


def _lines(cells: Sequence[Row]) -> list[charts.Line]:
    by_name: dict[str, list[Row]] = {}
    for cell in sorted(cells, key=lambda cell: int(cell["history"])):
        by_name.setdefault(_plain(cell), []).append(cell)
    order = list(dict.fromkeys(_plain(cell) for cell in cells))
    return [
        charts.Line(
            called,
            [(cell["history"], median(cell["p50_us"]) / 1000) for cell in by_name[called]],
            dashed=by_name[called][0]["role"] == "raw",
        )
        for called in order
    ]


def _plain(cell: Row) -> str:
    return name(cell).strip("*")
