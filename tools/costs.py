"""Measure the processor seconds that each test and each fixture takes, and print tables of them.

    PYTHONPATH=tools python -m pytest -p costs --costs=FOLDER …    measure
    python tools/costs.py FOLDER                  tables by folder, file, function and fixture
    python tools/costs.py FOLDER --rows 100       longer ones

Counted is what the process that runs the tests spends, with every process below it: servers and
other children as well. On a busy machine these figures stay what they are, unlike durations.
What a server does in the background counts for the test that runs meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
CHILDREN_AFTER = 0.004  # seconds: whatever ended sooner has started no process worth a look


class Cost(NamedTuple):
    """The processor seconds of this process and of those below it, and the time."""

    own: float
    below: float
    clock: float

    def since(self, before: Cost) -> Cost:
        return Cost(*(now - then for now, then in zip(self, before, strict=True)))


def below() -> float:
    """Return the processor seconds of all living and all awaited processes below this one."""
    used: dict[int, float] = {}
    children = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                text = Path(entry.path, "stat").read_text(errors="replace")
            except OSError:
                continue  # ended meanwhile
            fields = text[text.rindex(")") + 2 :].split()
            children[int(fields[1])].append(int(entry.name))
            used[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    awaited = os.times()
    seconds = awaited.children_user + awaited.children_system
    waiting = list(children[os.getpid()])
    while waiting:
        process = waiting.pop()
        seconds += used[process]
        waiting += children[process]
    return seconds


class Measure:
    """Plugin of pytest that writes a line for each part of each test."""

    def __init__(self, path: Path) -> None:
        self._path = path  # of this process alone
        self._below, self._spent = below(), 0.0
        self._looked = time.perf_counter()
        self._inner: list[list[float]] = [[0.0, 0.0, 0.0]]  # what fixtures took, of those around

    def _now(self) -> Cost:
        clock = time.perf_counter()
        if clock - self._looked > CHILDREN_AFTER:
            seen, self._looked = below(), clock
            # What ended and was awaited by nobody is in the sum no longer.
            self._spent += max(0.0, seen - self._below)
            self._below = seen
        return Cost(time.process_time(), self._spent, clock)

    @contextmanager
    def _measured(self, kind: str, name: str) -> Iterator[None]:
        before = self._now()
        self._inner.append([0.0, 0.0, 0.0])
        try:
            yield
        finally:
            spent = self._now().since(before)
            inner = self._inner.pop()
            alone = [whole - part for whole, part in zip(spent, inner, strict=True)]
            self._inner[-1] = [a + b for a, b in zip(self._inner[-1], spent, strict=True)]
            line = json.dumps([kind, name, *(round(part, 5) for part in alone)])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        with self._measured("collection", ""):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self._measured("test", item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        place = f"{fixturedef.baseid}::{fixturedef.argname}"
        with self._measured(f"fixture/{fixturedef.scope}", place):
            return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", help="folder for the processor seconds of each test")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--costs")
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Measure(Path(folder, f"{os.getpid()}.jsonl")))


# --- tables -------------------------------------------------------------------------------------


def read(folder: Path) -> list[tuple[str, str, Cost]]:
    return [
        (kind, name, Cost(*parts))
        for path in sorted(folder.glob("*.jsonl"))
        for kind, name, *parts in map(json.loads, path.read_text("utf-8").splitlines())
    ]


def print_table(title: str, rows: dict[str, list[Cost]], count: int) -> None:
    sums = {
        name: [sum(column) for column in zip(*costs, strict=True)] for name, costs in rows.items()
    }
    print(f"\n{title}\n{'seconds':>8} {'below':>8} {'elapsed':>8} {'number':>7}")
    for name, (own, under, clock) in sorted(sums.items(), key=lambda row: -sum(row[1][:2]))[:count]:
        print(f"{own + under:8.1f} {under:8.1f} {clock:8.1f} {len(rows[name]):7} {name}")


def main(argv: list[str]) -> None:
    count = int(argv[argv.index("--rows") + 1]) if "--rows" in argv else 40
    records = read(Path(argv[0]))
    tables: dict[str, dict[str, list[Cost]]] = defaultdict(lambda: defaultdict(list))
    kinds: defaultdict[str, float] = defaultdict(float)
    for kind, name, cost in records:
        kinds[kind] += cost.own + cost.below
        if kind == "test":
            path = name.split("::")[0]
            tables["tests by folder, without fixtures"][str(Path(path).parent)].append(cost)
            tables["tests by file"][path].append(cost)
            tables["tests by function"][name.split("[")[0]].append(cost)
        elif kind.startswith("fixture"):
            tables["fixtures"][f"{kind.removeprefix('fixture/'):<9}{name}"].append(cost)
    for title, rows in tables.items():
        print_table(title, rows, count)
    print("\nall: " + ", ".join(f"{kind} {seconds:.0f}" for kind, seconds in kinds.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
