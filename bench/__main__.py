"""`python -m bench`: measure Stateward against the raw drivers. It measures, it asserts nothing."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import apsw

from bench import coordination, graphs, imports, processes, storage
from bench.contestants import POSTGRES, REDIS, SQLITE, Field
from bench.conversations import Population
from bench.coordination import rows_of_coordination
from bench.databases import Databases
from bench.driving import Ready, Tasks, Threads, check
from bench.graphs import rows_of_graphs
from bench.homes import Files, Home, Servers, server_version
from bench.report import Report
from bench.rounds import Cell, Work, play
from bench.storage import store_on_servers
from bench.targets import LONG, SHORT, rows_of, rows_of_imports, rows_of_races, rows_of_storage
from bench.targets_postgres import rows_on_postgres
from bench.targets_redis import rows_of_memory, rows_on_redis

CALLS = ("last", "get", "update", "append", "turn")  # reads first: appends make histories longer
SECTIONS = (
    *(*CALLS, "histories", "context", "coordination", "processes", "storage"),
    *("langgraph", "import"),
)
ENGINES = ("sqlite", "redis", "postgres")
HISTORIES = (10, SHORT, 1_000, LONG)  # besides 100, which every other cell uses
POPULATION = {10: 60, SHORT: 60, 100: 100, 1_000: 10, LONG: 5}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="stateward-bench-", dir=options.folder) as name:
        folder = Path(name)
        before = _fsync(folder)
        report = Report(_setting(options))
        if "redis" in options.engine:
            _measure_redis(folder, options, report)
        if "postgres" in options.engine:
            _measure_postgres(folder, options, report)
        if "sqlite" in options.engine:
            _measure_sqlite(folder, options, report)
        if "langgraph" in options.only:
            _measure_graphs(folder, options, report)
        report.setting["fsync µs"] = f"{before:.0f} … {_fsync(folder):.0f}"
    if "import" in options.only:
        _say("import")
        report.rows += rows_of_imports(imports.measure(options.rounds))
    report.setting["took"] = f"{perf_counter() - _begun:.0f} s"
    print(report.text())
    if options.json:
        report.write(options.json)
    if options.page:
        report.write_into(options.page)


def _measure_sqlite(folder: Path, options: argparse.Namespace, report: Report) -> None:
    cells = _cells(lambda population: Files(folder, SQLITE, population), SQLITE, options)
    report.cells += cells
    report.rows += rows_of(cells)
    _measure_coordination("sqlite", folder, options, report)
    if "processes" in options.only:
        _say("four processes on one file")
        races = processes.race(folder, SQLITE.fill, rounds=options.rounds, turns=options.turns)
        report.rows += rows_of_races(races)
    if "storage" in options.only:
        _say("stored bytes")
        stored = storage.store(folder, SQLITE.fill, conversations=options.conversations)
        report.rows += rows_of_storage(stored)


def _measure_redis(folder: Path, options: argparse.Namespace, report: Report) -> None:
    cells = _cells(lambda population: Servers(folder, REDIS, population), REDIS, options)
    report.cells += cells
    report.rows += rows_on_redis(cells)
    _measure_coordination("redis", folder, options, report)
    if "storage" in options.only:
        _say("stored bytes on Redis")
        stored = store_on_servers(folder, REDIS.fill, conversations=options.conversations)
        report.rows += rows_of_memory(stored)


def _measure_postgres(folder: Path, options: argparse.Namespace, report: Report) -> None:
    cells = _cells(lambda population: Databases(POSTGRES, population), POSTGRES, options)
    report.cells += cells
    report.rows += rows_on_postgres(cells)
    _measure_coordination("postgres", folder, options, report)


def _measure_coordination(
    engine: str, folder: Path, options: argparse.Namespace, report: Report
) -> None:
    if "coordination" not in options.only:
        return
    _say(f"run-once tasks and workflow steps on {graphs.TITLES[engine]}")
    calls = 30 if options.quick else 100
    measured = coordination.measure(engine, folder, rounds=options.rounds, calls=calls)
    report.rows += rows_of_coordination(measured)


def _measure_graphs(folder: Path, options: argparse.Namespace, report: Report) -> None:
    if not graphs.available:
        report.setting["langgraph"] = "left out: it is not installed"
        return
    for engine in options.engine:
        _say(f"LangGraph's checkpoints on {graphs.TITLES[engine]}")
        messages = graphs.QUICK if options.quick else graphs.LONG
        measured = graphs.measure(engine, folder, rounds=options.rounds, messages=messages)
        report.rows += rows_of_graphs(measured)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about 90 s instead of 6 minutes")
    parser.add_argument(
        "--only", metavar="SECTION,…", default=",".join(SECTIONS), help=", ".join(SECTIONS)
    )
    parser.add_argument(
        "--engine", metavar="ENGINE,…", default=",".join(ENGINES), help=", ".join(ENGINES)
    )
    parser.add_argument("--callers", metavar="N,…", help="default: 1,10,100; --quick: 1,100")
    parser.add_argument("--rounds", type=int, help="how often each contestant has its turn")
    parser.add_argument("--slot", type=float, metavar="MS", help="how long each turn lasts")
    parser.add_argument("--turns", type=int, help="a process appends to the common file a round")
    parser.add_argument(
        "--loop",
        choices=("asyncio", "uvloop", "both"),
        help="default: asyncio, and 100 conversations on both",
    )
    parser.add_argument("--folder", help="where the files go; it must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="put the targets into this page, between its marks",
    )
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for section in options.only:
        if section not in SECTIONS:
            parser.error(f"--only {section}: use one of {', '.join(SECTIONS)}")
    options.engine = options.engine.split(",")
    for engine in options.engine:
        if engine not in ENGINES:
            parser.error(f"--engine {engine}: use one of {', '.join(ENGINES)}")
    callers = options.callers or ("1,100" if options.quick else "1,10,100")
    try:
        options.callers = [int(number) for number in callers.split(",")]
    except ValueError:
        parser.error(f"--callers {callers}: numbers with commas between")
    if not all(0 < number <= 100 for number in options.callers):
        parser.error("--callers: from 1 to 100")
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.slot = (options.slot or (30 if options.quick else 60)) / 1000
    options.turns = options.turns or (100 if options.quick else 250)
    options.conversations = 100 if options.quick else 400
    return options


def _cells(
    home: Callable[[Population], Home], field: Field, options: argparse.Namespace
) -> list[Cell]:
    groups = _groups(options)
    if not groups:
        return []
    needed = {work.history for works in groups for work in works} | {100}
    population = Population({n: POPULATION[n] for n in sorted(needed)})
    _say(f"filling stores with {sum(n for _, _, n in population.owners()):,} messages")
    stores = home(population)
    contestants: list[Ready] = []
    cells: list[Cell] = []
    try:
        contestants += [
            Threads(each(stores.copy(each.layout)), max(options.callers)) for each in field.blocking
        ]
        for loop in _loops(options):
            contestants += [Tasks(each(stores.copy(each.layout)), loop) for each in field.awaited]
        for each in contestants:
            check(each, population.threads(100)[0], population.user(0))
        for works in groups:
            _say("; ".join(str(work) for work in works))
            taking = {
                work: [each for each in contestants if _takes_part(each, work, options)]
                for work in works
            }
            cells += play(taking, population, rounds=options.rounds, seconds=options.slot)
    finally:
        for each in contestants:
            each.close()
        stores.close()
    return cells


def _groups(options: argparse.Namespace) -> list[list[Work]]:
    """What is interleaved with what."""
    groups = [
        [Work(method, callers)]
        for method in CALLS
        if method in options.only
        for callers in options.callers
        if method != "turn" or callers == 1
    ]
    if "context" in options.only:
        groups.append([Work("context")])
    if "histories" in options.only:
        lengths = (SHORT, LONG) if options.quick else HISTORIES
        groups += [[Work(method, history=n) for n in lengths] for method in ("last", "append")]
    return groups


def _loops(options: argparse.Namespace) -> tuple[str, ...]:
    """uvloop takes part where it was asked for, and by itself with 100 conversations."""
    if options.loop in ("asyncio", "uvloop"):
        return (options.loop,)
    both = options.loop == "both" or (100 in options.callers and sys.platform != "win32")
    return ("asyncio", "uvloop") if both else ("asyncio",)


def _takes_part(each: Ready, work: Work, options: argparse.Namespace) -> bool:
    if work.method == "context" and not each.has_context:
        return False
    return each.loop != "uvloop" or options.loop is not None or work.callers == 100


def _setting(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "Python": platform.python_version(),
        "sqlite3": sqlite3.sqlite_version,
        "apsw": apsw.sqlite_lib_version(),
        "server": server_version(),
        "cores": os.cpu_count(),
        "rounds": options.rounds,
        "durability": "SQLite: WAL, synchronous=FULL; Redis: appendfsync everysec; "
        "PostgreSQL: fsync, synchronous_commit=on",
    }


def _fsync(folder: Path) -> float:
    """Microseconds to write 4 KB to the disk: a figure near 0 means that it is no disk."""
    took = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(51):
            file.seek(0)
            file.write(b"x" * 4096)
            start = perf_counter()
            os.fsync(file.fileno())
            took.append(perf_counter() - start)
    return median(took) * 1e6


def _say(what: str) -> None:
    print(f"{perf_counter() - _begun:5.0f} s  {what}", file=sys.stderr, flush=True)


_begun = perf_counter()


if __name__ == "__main__":
    main()
