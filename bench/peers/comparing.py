"""Each contestant beside Stateward, round by round: how many times better Stateward was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.peers.table import TITLES

Cell = dict[str, Any]
Figures = dict[str, Any]

WORKS = {
    "append": "append a turn",
    "last": "last 20",
    "context": "full context",
    "get": "user get",
    "update": "user update",
    "once": "run once",
    "hit": "ran already",
}
# figure → its name, whether more is better, what it is divided by to be shown, its unit
KINDS = {
    "p50_us": ("time", False, 1_000, "ms"),
    "p99_us": ("p99", False, 1_000, "ms"),
    "per_second": ("calls/s", True, 1, "/s"),
    "cpu_us": ("client CPU", False, 1, "µs"),
    "stored": ("bytes stored a turn", False, 1_000, "KB"),
    "written": ("bytes written a turn", False, 1_000, "KB"),
    "stored_long": ("bytes stored a turn at 1,000 messages", False, 1_000, "KB"),
    "written_long": ("bytes written a turn at 1,000 messages", False, 1_000, "KB"),
    "kib": ("memory of an open conversation", False, 1, "KiB"),
}
LEAST = {"kib": 0.1, "stored": 1, "written": 1, "stored_long": 1, "written_long": 1}


@dataclass(frozen=True)
class Comparison:
    """How many times better Stateward did than another: below 1, the other was ahead."""

    engine: str
    what: str
    figure: str
    who: str
    role: str
    blocking: bool
    mine: float
    theirs: float
    times: float
    low: float
    high: float

    @property
    def ahead(self) -> bool:
        return self.times >= 1

    @property
    def sure(self) -> bool:
        """Whether every round says the same."""
        return (self.low >= 1) == (self.high >= 1)

    @property
    def title(self) -> str:
        return f"{TITLES[self.engine]}: {self.what}"


def what(cell: Cell) -> str:
    """The cell, in words."""
    name = WORKS[cell["work"]]
    if cell["callers"] > 1:
        return f"{name}, {cell['callers']} conversations"
    if cell["history"] != 100:
        return f"{name}, history of {cell['history']:,}"
    return name


def comparisons(figures: Figures) -> list[Comparison]:
    """Of all cells, with everyone in them."""
    return [
        *_of_cells(figures["cells"]),
        *_of_rows(figures["storage"], ("stored", "written", "stored_long", "written_long")),
        *_of_rows(figures["memory"], ("kib",)),
    ]


def _of_cells(cells: Sequence[Cell]) -> Iterator[Comparison]:
    ours = {
        (cell["engine"], what(cell), cell["colour"]): cell
        for cell in cells
        if cell["role"] == "stateward"
    }
    for cell in cells:
        mine = ours.get((cell["engine"], what(cell), cell["colour"]))
        if cell["role"] == "stateward" or mine is None:
            continue
        many = cell["callers"] > 1
        for figure in ("per_second", "p99_us", "cpu_us") if many else ("p50_us", "cpu_us"):
            name = what(cell)
            if figure not in ("p50_us", "per_second"):
                name += f", {KINDS[figure][0]}"
            yield _compared(cell, name, figure, mine[figure], cell[figure])


def _of_rows(rows: Sequence[Cell], kinds: Sequence[str]) -> Iterator[Comparison]:
    """Stateward's two colours store the same; in memory, the colour of the framework counts."""
    for row in rows:
        if row["role"] == "stateward":
            continue
        sync = row["colour"] == "sync"
        mine = next(
            each
            for each in rows
            if each["role"] == "stateward"
            and each["engine"] == row["engine"]
            and each["contestant"].endswith("blocking") == sync
        )
        for figure in kinds:
            yield _compared(row, KINDS[figure][0], figure, mine[figure], row[figure])


def _compared(cell: Cell, name: str, figure: str, mine: Any, theirs: Any) -> Comparison:
    many = KINDS[figure][1]
    ours = mine if isinstance(mine, list) else [mine]
    others = theirs if isinstance(theirs, list) else [theirs]
    least = LEAST.get(figure, 0.001)  # a conversation may take no memory at all
    if figure == "kib":  # of processes that did not take turns
        ours, others = [median(ours)], [median(others)]
    each = [
        max(a, least) / max(b, least) if many else max(b, least) / max(a, least)
        for a, b in zip(ours, others, strict=True)
    ]
    return Comparison(
        engine=cell["engine"],
        what=name,
        figure=figure,
        who=cell["contestant"],
        role=cell["role"],
        blocking=cell["colour"] == "sync",
        mine=median(ours),
        theirs=median(others),
        times=median(each),
        low=min(each),
        high=max(each),
    )
