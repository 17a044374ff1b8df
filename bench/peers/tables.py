"""The tables of the page: a figure, and how many times better Stateward was."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from statistics import median
from typing import Any

from bench.peers.comparing import KINDS, Figures, comparisons, what
from bench.peers.table import ENGINES, TITLES

IMAGES = "images"
CALLS = ("append", "last", "context", "get", "update")
HEADS = {
    **{"append": "append", "last": "last 20", "context": "full context"},
    **{"get": "user get", "update": "user update"},
}

Row = dict[str, Any]


def crowd(figures: Figures) -> Iterator[str]:
    cells = [cell for cell in figures["cells"] if cell["callers"] > 1]
    if not cells:
        return
    yield from ("## Append, 100 concurrent conversations", "")
    yield from (f"![Turns appended per second]({IMAGES}/peers-crowd.svg)", "")
    kinds = {"appends/s": "per_second", "p99": "p99_us", "client CPU per append": "cpu_us"}
    for engine, here in _by_engine(cells):
        yield from (f"### {TITLES[engine]}, 100 conversations", "")
        yield from _table(here, list(kinds), lambda row, head: _beside(row, kinds[head], cells))
        for cell in here:
            if cell["refused"]:
                count = f"{cell['refused']:,} of {cell['calls']:,}"
                yield f"{count} appends of {cell['contestant']} failed: the database was locked."
                yield ""


def calls(figures: Figures) -> Iterator[str]:
    yield from ("## One caller, history of 100 messages", "")
    yield from (
        "The full context is the conversation and the user's document: Stateward reads them, and",
        "the user's unfinished work, in one call. An empty cell: there is no such call.",
        "",
    )
    yield from _works(figures, "p50_us", "")


def processor(figures: Figures) -> Iterator[str]:
    yield from ("## CPU time of the client, one caller", "")
    yield from ("On SQLite that includes the engine, which runs in the client's process.", "")
    yield from _works(figures, "cpu_us", ", client CPU")


def _works(figures: Figures, figure: str, suffix: str) -> Iterator[str]:
    cells = [c for c in figures["cells"] if (c["callers"], c["history"]) == (1, 100)]
    cells = [cell for cell in cells if cell["work"] in CALLS]
    for engine, here in _by_engine(cells):
        yield from (f"### {TITLES[engine]}{suffix}", "")
        yield from _grid(here, {HEADS[work]: work for work in CALLS}, lambda c: c["work"], figure)


def growth(figures: Figures) -> Iterator[str]:
    cells = [c for c in figures["cells"] if c["callers"] == 1 and c["history"] != 100]
    if not cells:
        return
    yield from ("## How a call grows with the conversation", "")
    for engine, _ in _by_engine(cells):
        for work in ("append", "last"):
            yield f"![{HEADS[work]} on {TITLES[engine]}]({IMAGES}/peers-{work}-{engine}.svg)"
            yield ""
    histories = sorted({cell["history"] for cell in cells})
    for engine, here in _by_engine(cells):
        for work in ("append", "last"):
            mine = [cell for cell in here if cell["work"] == work]
            heads = {f"at {n:,}": n for n in histories}
            yield from (f"### {TITLES[engine]}, {HEADS[work]} by messages", "")
            yield from _grid(mine, heads, lambda cell: cell["history"], "p50_us", missing="—")
    yield from (
        "A dash: not measured, because a checkpoint or a row with the whole conversation takes too",
        "long.",
        "",
    )


def tasks(figures: Figures) -> Iterator[str]:
    cells = [cell for cell in figures["cells"] if cell["work"] in ("once", "hit")]
    if not cells:
        return
    yield from ("## Tasks that run once", "")
    yield from (f"![A task that runs once]({IMAGES}/peers-tasks.svg)", "")
    heads = {"a new task": "once", "a completed task": "hit"}
    for engine, here in _by_engine(cells):
        yield from (f"### {TITLES[engine]}, tasks", "")
        yield from _grid(here, heads, lambda cell: cell["work"], "p50_us")


def stored(figures: Figures) -> Iterator[str]:
    rows = figures["storage"]
    if not rows:
        return
    yield from (
        "## Bytes stored and written for a turn of 1 KB",
        "",
        f"While conversations grow to {rows[0]['messages']} messages, and at 1,000. On SQLite the",
        "size of the file, and what the process wrote; on PostgreSQL the size of the database, and",
        "of the write-ahead log; on Valkey its memory, and the append-only file. Memory grows in",
        "steps: redis-py and valkey-glide store the same, so their difference is the error.",
        "",
    )
    kinds = {
        **{"stored": "stored", "written": "written"},
        **{"stored at 1,000": "stored_long", "written at 1,000": "written_long"},
    }
    for engine, here in _by_engine(rows):
        yield from (f"### {TITLES[engine]}, bytes", "")
        yield from _table(here, list(kinds), lambda row, head: _beside(row, kinds[head], rows))


def remembered(figures: Figures) -> Iterator[str]:
    rows = figures["memory"]
    if not rows:
        return
    yield from (
        "## Memory of an open conversation",
        "",
        "How much the process grows for each conversation in which a turn was appended and read,",
        "with what the framework's documentation says to keep. Each ran in its own process.",
        "",
    )

    def column(row: Row, head: str) -> str:
        if head == "batches":
            return f"{min(row['kib']):.1f}–{max(row['kib']):.1f}"
        return _beside(row, "kib", rows)

    for engine, here in _by_engine(rows):
        yield from (f"### {TITLES[engine]}, memory", "")
        yield from _table(here, ["memory", "batches"], column)


# --- rows and columns -------------------------------------------------------------------


def _by_engine(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for engine in ENGINES:
        here = [row for row in rows if row["engine"] == engine]
        if here:
            yield engine, here


def _table(
    rows: Sequence[Row], heads: Sequence[str], column: Callable[[Row, str], str]
) -> Iterator[str]:
    """A line for each row."""
    yield f"| who | {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * len(heads)
    for row in rows:
        yield f"| {name(row)} | {' | '.join(column(row, head) for head in heads)} |"
    yield ""


def _grid(
    cells: Sequence[Row],
    heads: dict[str, Hashable],
    key: Callable[[Row], Hashable],
    figure: str,
    missing: str = "",
) -> Iterator[str]:
    """A line for each contestant, a column for each of its cells."""
    by_name: dict[str, dict[Hashable, Row]] = {}
    for cell in cells:
        by_name.setdefault(name(cell), {})[key(cell)] = cell
    firsts = [next(iter(mine.values())) for mine in by_name.values()]

    def column(first: Row, head: str) -> str:
        cell = by_name[name(first)].get(heads[head])
        return missing if cell is None else _beside(cell, figure, cells)

    yield from _table(firsts, list(heads), column)


def name(cell: Row) -> str:
    """How a contestant is called on the page."""
    called: str = cell["contestant"]
    if cell["role"] == "raw":
        return f"*{called}, raw*"
    twins = cell.get("work") in ("once", "hit") and cell["role"] == "peer"
    return f"{called}, blocking" if twins and cell["colour"] == "sync" else called


def _beside(row: Row, figure: str, here: Sequence[Row]) -> str:
    """A figure, and how many times better Stateward's is."""
    value = row[figure]
    plain = shown(median(value) if isinstance(value, list) else value, figure)
    if row["role"] == "stateward":
        return plain
    ours = [each for each in here if each["role"] == "stateward" and _same(each, row)]
    part = "cells" if "work" in row else "memory" if figure == "kib" else "storage"
    figures: Figures = {"cells": [], "storage": [], "memory": []} | {part: [*ours, row]}
    for each in comparisons(figures):
        if each.figure == figure:
            spread = "" if each.low == each.high else f" ({times(each.low)}–{times(each.high)})"
            ratio = f"{times(each.times)} ×{spread}"
            return f"{plain}, {ratio if each.ahead else f'**{ratio}**'}"
    return plain


def _same(one: Row, other: Row) -> bool:
    """The same cell of another contestant."""
    return one["engine"] == other["engine"] and ("work" not in one or what(one) == what(other))


def shown(value: float, figure: str) -> str:
    """A figure with its unit."""
    _, _, by, unit = KINDS[figure]
    value /= by
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}" + (unit if unit.startswith("/") else f" {unit}")


def times(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"
