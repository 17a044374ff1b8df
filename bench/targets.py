"""What Stateward must reach on SQLite, row by row, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.imports import Imported
from bench.processes import Race
from bench.rounds import Cell, Ratio, Result, Work, quantile
from bench.storage import Stored

STATEWARD, BLOCKING = "stateward", "stateward.sync"
SHORT, LONG = 20, 10_000  # messages: growth is from the one to the other


@dataclass(frozen=True)
class Row:
    """One line of the verdict. Without a limit it is there to be read, not to be judged."""

    what: str
    who: str
    measured: Ratio
    unit: str = "×"
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return self.measured.median <= self.at_most
        if self.at_least is not None:
            return self.measured.median >= self.at_least
        return None

    @property
    def missed_by(self) -> float:
        """The share of the limit by which it was missed; 0 if it was met."""
        if self.met is not False:
            return 0.0
        limit = self.at_least if self.at_most is None else self.at_most
        return abs(self.measured.median / limit - 1) if limit else 1.0


class Cells:
    """Results by work, contestant and loop; a row whose cells were not measured is left out."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._by_work = {cell.work: cell.results for cell in cells}

    def find(self, work: Work, name: str) -> list[Result]:
        """One for each loop it ran on."""
        return [result for result in self._by_work.get(work, ()) if result.name == name]

    def against(
        self, work: Work, name: str, others: Sequence[str], figure: str
    ) -> Iterator[tuple[str, Ratio]]:
        """`name` divided by each of the others; two event loops are not mixed."""
        for mine in self.find(work, name):
            for other in others:
                for theirs in self.find(work, other):
                    if {mine.loop, theirs.loop} == {"asyncio", "uvloop"}:
                        continue
                    ratio = Ratio.of(mine.by_round(figure), theirs.by_round(figure))
                    yield f"{title(mine)} / {title(theirs)}", ratio


def title(result: Result) -> str:
    """A contestant's name, with its loop where that is not the ordinary one."""
    if result.loop == "uvloop":
        return f"{result.name} (uvloop)"
    if result.loop == "threads" and not result.name.startswith(BLOCKING):
        return f"{result.name}, blocking"
    return result.name


def rows_of(cells: Sequence[Cell]) -> list[Row]:
    """The rows that come from timed cells."""
    found = Cells(cells)
    return [
        *_one_caller(found),
        *_many_callers(found),
        *_others(found),
        *growth(found, BLOCKING, STATEWARD),
        *context(found, ((BLOCKING, "apsw"), (STATEWARD, "apsw on a worker"))),
    ]


def _one_caller(cells: Cells) -> Iterator[Row]:
    drivers, loops = ("apsw", "sqlite3"), ("aiosqlite", "apsw on a worker")
    for method, name, others, limit in (
        ("append", BLOCKING, drivers, 1.25),
        ("append", STATEWARD, loops, 1.25),
        ("append", STATEWARD, (BLOCKING,), 1.5),
        ("last", BLOCKING, drivers, 1.5),
        ("last", STATEWARD, (*drivers, *loops), 1.5),
    ):
        work = Work(method)
        for who, ratio in cells.against(work, name, others, "p50"):
            yield Row(str(work), who, ratio, at_most=limit)


def _many_callers(cells: Cells) -> Iterator[Row]:
    work = Work("append", 100)
    for name, limit in ((STATEWARD, 4.5), (BLOCKING, None)):
        for who, ratio in cells.against(work, name, ("sqlite3", "apsw"), "per_second"):
            yield Row(f"{work}: calls/s", who, ratio, at_least=limit)
    for who, ratio in cells.against(work, STATEWARD, ("aiosqlite",), "per_second"):
        yield Row(f"{work}: calls/s", who, ratio)
    for name, limit in ((STATEWARD, 15.0), (BLOCKING, None)):
        yield from slowest(cells, work, name, limit)
    work = Work("last", 100)
    for name, others in (
        (STATEWARD, ("aiosqlite", "apsw on a worker")),
        (BLOCKING, ("sqlite3", "apsw")),
    ):
        for who, ratio in cells.against(work, name, others, "per_second"):
            yield Row(f"{work}: calls/s", who, ratio, at_least=2.0)


def slowest(cells: Cells, work: Work, name: str, limit: float | None) -> Iterator[Row]:
    for result in cells.find(work, name):
        each = [quantile(slot.took, 0.99) / 1e6 for slot in result.slots]
        p99 = Ratio(result.p99 / 1000, min(each), max(each))
        yield Row(f"{work}: p99", title(result), p99, "ms", at_most=limit)


def _others(cells: Cells) -> Iterator[Row]:
    """No target: what a document, and a whole turn, cost beside the driver."""
    for method in ("get", "update", "turn"):
        work = Work(method)
        for name, other in ((BLOCKING, "apsw"), (STATEWARD, "aiosqlite")):
            for who, ratio in cells.against(work, name, (other,), "p50"):
                yield Row(str(work), who, ratio)


def growth(cells: Cells, *names: str) -> Iterator[Row]:
    for method in ("append", "last"):
        for name in names:
            short = cells.find(Work(method, history=SHORT), name)
            long = cells.find(Work(method, history=LONG), name)
            for before, after in zip(short, long, strict=False):
                ratio = Ratio.of(after.by_round("p50"), before.by_round("p50"))
                what = f"growth of {Work(method)}".partition(",")[0] + f", {SHORT} → {LONG:,}"
                yield Row(what, name, ratio, at_most=1.2)


def context(cells: Cells, pairs: Sequence[tuple[str, str]]) -> Iterator[Row]:
    """Each beside a raw client that reads the same three things."""
    work = Work("context")
    for name, other in pairs:
        for who, ratio in cells.against(work, name, (other,), "p50"):
            yield Row(str(work), who, ratio, at_most=1.25)


def rows_of_races(races: Sequence[Race]) -> Iterator[Row]:
    for race in races:
        ours = race.name in (STATEWARD, BLOCKING)
        lost = Ratio(race.lost, race.lost, race.lost)
        what = "four processes, one file"
        yield Row(f"{what}: messages lost", race.name, lost, "", at_most=0 if ours else None)
        each = [quantile(took, 0.99) / 1e6 for took in race.rounds]
        p99 = Ratio(median(each), min(each), max(each))
        yield Row(f"{what}: append p99", race.name, p99, "ms", at_most=30 if ours else None)


def rows_of_storage(found: Sequence[Stored]) -> Iterator[Row]:
    for stored in found:
        ratio = Ratio(stored.ratio, stored.ratio, stored.ratio)
        limit = 1.3 if stored.layout == STATEWARD else None
        yield Row("stored bytes / bytes of JSON", stored.layout, ratio, at_most=limit)


def rows_of_imports(found: Sequence[Imported]) -> Iterator[Row]:
    for each in found:
        took = each.milliseconds
        ratio = Ratio(median(took), min(took), max(took))
        limit = 30.0 if each.module == STATEWARD else None
        yield Row("import, beyond asyncio and msgspec", each.module, ratio, "ms", at_most=limit)
        count = len(each.drivers)
        drivers = Ratio(count, count, count)
        yield Row("engine drivers imported with it", each.module, drivers, "", at_most=0)
