"""How cost grows: the script runs and says what it found; at full size nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.scale import crew, crowd, long_work, million  # noqa: E402
from bench.scale.places import PLACES, Place  # noqa: E402

SMALL = ("--conversations", "40", "--rate", "200", "--seconds", "0.3", "--processes", "2")
SMALL = (*SMALL, "--each", "2", "--turns", "5", "--messages", "2000")
SMALL = (*SMALL, "--rounds", "1", "--calls", "20", "--steps", "30")


def scale(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.scale", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_small_run_fills_the_page_and_loses_nothing(tmp_path: Path) -> None:
    figures, page = tmp_path / "scale.json", tmp_path / "page.md"
    page.write_text("before\n<!-- figures: begin --><!-- figures: end -->\nafter\n", "utf-8")
    on = ("--engine", "sqlite", "--folder", str(tmp_path), "--json", str(figures))
    done = scale(*SMALL, *on, "--only", "calls,open,million,workflow")
    assert done.returncode == 0, done.stderr
    # Another run adds to the file.
    done = scale(*SMALL, *on, "--only", "processes", "--page", str(page))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(figures.read_text("utf-8"))
    (talking,), (together,), (large,) = (
        found[section]["sqlite"] for section in ("open", "processes", "million")
    )
    costs = {cost["call"]: cost for cost in found["calls"]["sqlite"]}
    assert costs["append"]["client_us"] > 0
    assert costs["append"]["server_us"] is None
    assert talking["conversations"] == 40
    assert talking["cpu_us"] > 0
    assert (together["turns"], together["processes"]) == (2 * 3 * 5, 2)
    assert (together["lost"], together["repeated"], together["split"]) == (0, 0, 0)
    assert large["payload"] == 2_000 * 500
    assert large["bytes"]["disk"] > large["payload"]
    for long in found["workflow"]["sqlite"]:
        assert long["calls"] == 30
        assert long["resume_ms"] > 0
        assert long["round_trips"] == 2
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    for title in ("Open conversations", "Processes on one store", "A million messages", "Model"):
        assert title in text
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_wrong_word_is_refused_with_the_right_ones() -> None:
    done = scale("--only", "opened")
    assert done.returncode == 2
    assert "calls, open, processes, million, workflow, slots" in done.stderr


# --- at full size -----------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made: Place = PLACES[request.param](tmp_path)
    yield made
    made.close()


@pytest.mark.soak
def test_ten_thousand_conversations_are_open_in_one_process(place: Place) -> None:
    found = crowd.measure(place, 10_000, rate=200.0, seconds=5.0)
    assert found.idle_bytes <= 4_000, "a conversation that waits keeps no more than its handle"
    assert found.cached_bytes <= 1.3 * 20 * 500
    assert found.at_once > 0


@pytest.mark.soak
def test_eight_processes_on_one_store_lose_repeat_and_split_nothing(place: Place) -> None:
    found = crew.measure(place, 8, conversations=10, turns=100)
    assert found.turns == 8 * 11 * 100
    assert (found.lost, found.repeated, found.split) == (0, 0, 0)


@pytest.mark.soak
def test_a_million_messages_cost_a_call_what_a_thousand_do(place: Place, tmp_path: Path) -> None:
    found = million.measure(place, tmp_path, 1_000_000)
    # Wide: a shared machine differs by a third from one moment to the next.
    assert found.last["few_growth"] <= 1.5
    assert found.append["few_growth"] <= 1.5
    assert min(found.bytes.values()) > 0
    assert found.bytes.get("memory", found.bytes["disk"]) <= 1.6 * found.payload


@pytest.mark.soak
def test_ten_thousand_model_calls_in_one_workflow_stay_cheap(place: Place) -> None:
    for found in long_work.measure(place, 10_000):
        assert min(found.bytes.values()) <= 60e6
        assert found.round_trips <= 4
