"""The benchmark of lost context runs on data of the form that it describes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def bench(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.repeats", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def moment(question: str, *, repeat: bool) -> dict[str, Any]:
    history = [{"role": "user", "content": "A boat to Ulva, please."}]
    return {
        "history": history,
        "candidate": question,
        "known": {"Boats.destination": "Ulva"},
        "repeat": repeat,
    }


def test_it_prints_a_row_for_each_way_of_looking(tmp_path: Path) -> None:
    moments = [moment("What destination has the boat?", repeat=True)] * 20
    moments += [moment("How many people are you?", repeat=False)] * 20
    (tmp_path / "dev.jsonl").write_text("\n".join(json.dumps(one) for one in moments))
    ran = bench(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "40 moments, 20 of them repeats" in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines() if "state" in line]
    assert len(rows) == 2
    for row in rows:
        found, _, wrong, _ = row[5:9]  # each with its interval
        assert (found, wrong) == ("1.000", "0.000")


def test_without_data_it_says_what_to_do(tmp_path: Path) -> None:
    ran = bench(tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "STATEWARD_REASK" in ran.stderr
