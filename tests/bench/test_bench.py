"""The benchmark runs, and its figures are figures. What they say is for people to read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REDIS = ("redis-py", "redis-py, key and expiry")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One small run of nearly everything."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    only = "append,last,get,update,context,processes,storage,import"
    small = ("--quick", "--callers", "1,10", "--rounds", "2", "--slot", "3", "--turns", "10")
    on = ("--engine", "sqlite,redis", "--folder", str(path.parent))
    page = path.with_name("page.md")
    page.write_text("before\n<!-- figures: begin --><!-- figures: end -->\nafter\n", "utf-8")
    done = bench(*small, "--only", only, *on, "--json", str(path), "--page", str(page))
    assert done.returncode == 0, done.stderr
    assert (
        "| full context, 1 caller, history 100 | stateward / apsw on a worker |"
        in page.read_text("utf-8")
    )
    assert "targets met" in done.stdout
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_every_contestant_is_measured_in_every_cell(figures: dict[str, Any]) -> None:
    measured = {
        (cell["work"], cell["callers"], cell["contestant"], cell["loop"])
        for cell in figures["cells"]
    }
    contestants = [
        *((name, "threads") for name in ("sqlite3", "apsw", "stateward.sync")),
        *((name, "asyncio") for name in ("aiosqlite", "apsw on a worker", "stateward")),
        *((name, loop) for name in REDIS for loop in ("threads", "asyncio")),
        ("stateward.sync (redis)", "threads"),
        ("stateward (redis)", "asyncio"),
    ]
    for work in ("append", "last", "get", "update"):
        for callers in (1, 10):
            for name, loop in contestants:
                assert (work, callers, name, loop) in measured
    for name, loop in contestants:
        has_context = name not in ("sqlite3", "aiosqlite")
        assert (("context", 1, name, loop) in measured) == has_context


def test_a_cell_has_a_figure_for_each_round(figures: dict[str, Any]) -> None:
    for cell in figures["cells"]:
        assert cell["calls"] >= 2
        # p50 is the median of the rounds, p99 that of all calls: a slow round may have few.
        assert 0 < min(cell["p50_us_by_round"]) <= cell["p99_us"]
        assert len(cell["p50_us_by_round"]) == len(cell["per_second_by_round"]) == 2
        assert all(rate > 0 for rate in cell["per_second_by_round"])


def test_each_target_is_judged_by_a_number(figures: dict[str, Any]) -> None:
    rows = {(row["what"], row["who"]): row for row in figures["rows"]}
    assert ("append a turn, 1 caller, history 100", "stateward / aiosqlite") in rows
    assert ("last 20, 1 caller, history 100", "stateward.sync / apsw, blocking") in rows
    assert ("full context, 1 caller, history 100", "stateward / apsw on a worker") in rows
    assert ("full context, 1 caller, history 100", "stateward (redis) / redis-py") in rows
    assert ("four processes, one file: append p99", "stateward") in rows
    assert ("stored bytes / bytes of JSON", "stateward") in rows
    append = "append a turn, 1 caller, history 100"
    assert (append, "stateward (redis) / redis-py") in rows
    assert (append, "stateward.sync (redis) / redis-py, key and expiry, blocking") in rows
    assert ("memory / bytes of JSON", "stateward (redis)") in rows
    assert ("import, beyond asyncio and msgspec", "stateward") in rows
    for row in rows.values():
        measured = row["measured"]
        assert all(math.isfinite(measured[name]) for name in ("median", "low", "high"))
        judged = row["at_most"] is not None or row["at_least"] is not None
        assert (row["met"] is not None) == judged
        assert (row["missed_by"] > 0) == (row["met"] is False)


def test_four_processes_lose_nothing(figures: dict[str, Any]) -> None:
    lost = [row for row in figures["rows"] if row["what"].endswith("messages lost")]
    assert [row["measured"]["median"] for row in lost] == [0, 0, 0]


def test_postgresql_is_measured_beside_its_driver(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    small = ("--quick", "--callers", "1,10", "--rounds", "2", "--slot", "5", "--engine", "postgres")
    done = bench(*small, "--only", "append,last,context", "--json", str(path))
    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text(encoding="utf-8"))
    measured = {
        (cell["work"], cell["callers"], cell["contestant"], cell["loop"])
        for cell in figures["cells"]
    }
    for name, loop in (
        ("psycopg", "threads"),
        ("stateward.sync", "threads"),
        ("psycopg pool", "asyncio"),
        ("stateward", "asyncio"),
    ):
        for work in ("append", "last"):
            assert {(work, 1, name, loop), (work, 10, name, loop)} <= measured
    rows = {(row["what"], row["who"]) for row in figures["rows"]}
    assert ("PostgreSQL: last 20, 1 caller, history 100", "stateward / psycopg pool") in rows
    context = "PostgreSQL: full context, 1 caller, history 100"
    assert (context, "stateward / psycopg pool") in rows
    assert (context, "stateward.sync / psycopg, blocking") in rows


def test_checkpoints_of_a_graph_are_measured_by_time_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    small = ("--quick", "--rounds", "1", "--engine", "sqlite", "--folder", str(tmp_path))
    done = bench("--only", "langgraph", *small, "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}
    growth = rows["LangGraph on SQLite: put, 10 → 100 messages"]
    kept = rows["LangGraph on SQLite: stored per KB of a turn"]
    assert growth["at_most"] == 1.3
    assert growth["measured"]["median"] > 0
    assert kept["at_most"] == 2
    assert 1.5 < kept["measured"]["median"] < 4  # pages of few turns are not full


def test_without_langgraph_its_section_says_that_it_is_left_out(tmp_path: Path) -> None:
    code = "import sys; sys.modules['langgraph'] = None; from bench.__main__ import main; main()"
    only = ("--only", "langgraph", "--engine", "sqlite", "--folder", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code, *only], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "langgraph left out: it is not installed" in done.stdout
    assert "LangGraph on" not in done.stdout


def test_a_wrong_section_is_refused_with_the_right_ones() -> None:
    done = bench("--only", "apend")
    assert done.returncode == 2
    assert "last, get, update, append" in done.stderr
    assert "langgraph" in done.stderr
    done = bench("--engine", "sqlight")
    assert done.returncode == 2
    assert "sqlite, redis" in done.stderr


def test_the_table_of_patterns_has_a_row_for_each_store_that_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.patterns", "sqlite", "mine=memory://", "--seconds", "0.05"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert head.count("|") == 6
    assert sorted(row.split()[1] for row in rows) == ["mine", "sqlite"]
    assert all(row.count(" ms |") == 3 for row in rows)
