"""`make verify` finds each Python of the machine once, and none that cannot run the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pythons

TOOL = Path(pythons.__file__)


def test_each_supported_version_is_found_once_and_runs() -> None:
    found = pythons.interpreters()
    assert sys.version_info[:2] in found
    assert all(pythons.OLDEST <= minor <= pythons.NEWEST for minor in found)
    for minor, python in found.items():
        version = pythons.version_of(python)
        assert version is not None
        assert version[:2] == minor


def test_the_others_are_all_but_the_one_that_asks() -> None:
    asked = subprocess.run(
        [sys.executable, TOOL, "--others"], capture_output=True, text=True, check=True
    )
    mine = sys.version_info[:2]
    others = [str(path) for minor, path in pythons.interpreters().items() if minor != mine]
    assert asked.stdout.splitlines() == others


@pytest.mark.parametrize(
    "says", ["", "pypy 3 11 7 final", "cpython 3 14 0 beta", "exit 1", "cpython 3 12"]
)
def test_what_is_no_released_cpython_is_left_out(says: str, tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text(f"#!/bin/sh\n{says if says.startswith('exit') else f'echo {says}'}\n")
    shim.chmod(0o755)
    assert pythons.version_of(shim) is None


def test_what_cannot_be_started_is_left_out(tmp_path: Path) -> None:
    assert pythons.version_of(tmp_path / "python3.12") is None
    (tmp_path / "python3.13").write_text("not a program")
    assert pythons.version_of(tmp_path / "python3.13") is None
