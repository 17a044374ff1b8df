"""Type checkers accept what users write and refuse what is wrong. mypy: see `make types`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CODE = Path(__file__).with_name("code_of_users.py")


def test_pyright_accepts_all_but_what_is_wrong(tmp_path: Path) -> None:
    config = tmp_path / "pyrightconfig.json"
    settings = {
        "include": [str(CODE)],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,  # those are for mypy
        "pythonVersion": "3.11",
    }
    config.write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable, "-p", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, done.stderr
    refused = {
        found["range"]["start"]["line"]: found["message"] for found in found["generalDiagnostics"]
    }
    lines = CODE.read_text("utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines) if line.endswith("# wrong")}
    assert len(wrong) >= 8
    assert set(refused) == wrong, {lines[n]: refused.get(n) for n in set(refused) ^ wrong}
