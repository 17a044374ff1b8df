"""The benchmark beside other stores: its table, its page, and a small run of what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from bench.peers import page  # noqa: E402
from bench.peers.comparing import comparisons  # noqa: E402
from bench.peers.plots import images  # noqa: E402
from bench.peers.table import STATE, TASKS, Entry, taking_part  # noqa: E402

DOCS = ROOT / "docs"
REQUIREMENTS = ROOT / "bench" / "requirements-peers.txt"
ENTRIES = [
    *(entry for entries in STATE.values() for entry in entries),
    *(entry for entries in TASKS.values() for entry in entries),
]
IMAGE = re.compile(r"!\[[^\]]+\]\((?P<target>[^)]+)\)")


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """What the page was written from."""
    path = ROOT / "bench" / "peers" / "figures.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


# --- the page ---------------------------------------------------------------------------


def test_the_page_and_its_images_are_what_the_script_writes(figures: dict[str, Any]) -> None:
    assert (DOCS / "performance.md").read_text("utf-8") == page.text(figures)
    for name, image in images(figures).items():
        assert (DOCS / "images" / name).read_text("utf-8") == image


def test_every_table_of_the_page_has_its_columns_and_every_image_is_there() -> None:
    said = (DOCS / "performance.md").read_text("utf-8")
    columns = 0
    for line in said.splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        columns = columns or line.count("|")
        assert line.count("|") == columns, line
    shown = [DOCS / match["target"] for match in IMAGE.finditer(said)]
    assert len(shown) >= 8
    for path in shown:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_page_was_written_with_every_contestant_in_the_versions_that_are_required(
    figures: dict[str, Any],
) -> None:
    named = {each["module"] for each in figures["setting"]["durability"]}
    assert named == {entry.module for entry in ENTRIES}
    required = dict(line.lower().split("==") for line in requirements())
    for name, version in figures["setting"]["packages"].items():
        assert required[name] == version


def test_everyone_in_every_cell_is_compared_with_stateward(figures: dict[str, Any]) -> None:
    compared = {(each.engine, each.who) for each in comparisons(figures)}
    for part in ("cells", "storage", "memory"):
        others = [each for each in figures[part] if each["role"] != "stateward"]
        assert others
        assert {(each["engine"], each["contestant"]) for each in others} <= compared


def test_a_cell_in_which_a_peer_is_ahead_comes_first_and_a_target_that_is_missed_says_so() -> None:
    figures = made(ours=200.0, theirs=100.0)
    (each, *_) = comparisons(figures)
    assert (each.times, each.ahead) == (0.5, False)
    said = page.text(figures)
    first, _, rest = said.partition("## Targets")
    assert "| SQLite: append a turn, 100 conversations | a peer | 2.0 × |" in first
    assert "MISSED by 83%" in rest
    assert "In none of" in page.text(made(ours=100.0, theirs=400.0)).partition("## Targets")[0]
    assert "| met |" in page.text(made(ours=100.0, theirs=400.0))


def made(*, ours: float, theirs: float) -> dict[str, Any]:
    """Figures of one cell with two contestants."""

    def cell(name: str, role: str, took: float) -> dict[str, Any]:
        return {
            **{"engine": "sqlite", "work": "append", "callers": 100, "history": 100},
            **{"contestant": name, "role": role, "colour": "async", "calls": 3, "refused": 0},
            **{"p50_us": [took] * 3, "p99_us": [took] * 3, "cpu_us": [took] * 3},
            "per_second": [1e6 / took] * 3,
        }

    cells = [cell("Stateward", "stateward", ours), cell("a peer", "peer", theirs)]
    setting = {
        **{
            "on": "2030-01-01",
            "rounds": 3,
            "slot_ms": 1,
            "crowd_ms": 2,
            "seconds": 60,
            "machine": "a machine",
        },
        **{"python": "3", "loop": "asyncio", "fsync_us": [1, 2], "load": 0.0, "servers": {}},
        **{"sqlite": {"apsw": "3", "sqlite3": "3"}, "packages": {}, "durability": []},
    }
    return {"setting": setting, "cells": cells, "storage": [], "memory": []}


# --- the table --------------------------------------------------------------------------


def requirements() -> list[str]:
    lines = REQUIREMENTS.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_pinned_and_names_no_place_to_get_it_from() -> None:
    for line in requirements():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line), line


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.module}-{entry.kind}")
def test_a_contestant_has_its_module_and_its_packages_are_required(entry: Entry) -> None:
    module = ROOT / "bench" / "peers" / "contestants" / f"{entry.module}.py"
    assert f"class {entry.kind}(" in module.read_text("utf-8")
    required = {line.lower().partition("==")[0].replace("_", "-") for line in requirements()}
    assert set(entry.packages) <= required
    assert (entry.role == "stateward") == (not entry.packages)


def test_a_contestant_that_is_missing_stops_the_run_unless_that_was_asked_for() -> None:
    absent = Entry("nowhere", "Nobody", "peer", "", ("no-such-package",), "no_such_package")
    assert taking_part((absent,), installed_alone=True) == []
    with pytest.raises(SystemExit, match="no-such-package"):
        taking_part((absent,), installed_alone=False)


# --- a run ------------------------------------------------------------------------------


def test_a_small_run_of_the_contestants_that_are_installed_writes_figures_and_a_page(
    tmp_path: Path,
) -> None:
    path = tmp_path / "figures.json"
    small = ("--installed", "--small", "--rounds", "1", "--slot", "2", "--engine", "sqlite")
    where = ("--folder", str(tmp_path), "--docs", str(tmp_path / "docs"), "--json", str(path))
    only = ("--only", "calls,tasks,storage")
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", *small, *only, *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(path.read_text("utf-8"))
    measured = {(cell["contestant"], cell["work"]) for cell in figures["cells"]}
    for name in ("Stateward", "OpenAI Agents SQLiteSession", "Strands FileSessionManager"):
        assert {(name, "append"), (name, "last")} <= measured
    for work in ("context", "get", "update", "once", "hit"):
        assert {("Stateward", work), ("Stateward, blocking", work)} <= measured
    assert all(cell["calls"] >= 1 and min(cell["p50_us"]) > 0 for cell in figures["cells"])
    assert all(row["stored"] > 500 for row in figures["storage"])
    assert (tmp_path / "docs" / "performance.md").read_text("utf-8") == page.text(figures)
