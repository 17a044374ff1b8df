"""A second try is for a few tests, is made aloud, and forgives nothing that fails again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "once_more.py"
UNSTEADY = """
from pathlib import Path

def test_second_time_lucky():
    tried = Path("tried")
    before = tried.exists()
    tried.touch()
    assert before
"""
BROKEN = """
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_never(n):
    assert False
"""

BROKEN_OFF = """
def pytest_runtest_logreport(report):
    if report.failed:
        raise KeyboardInterrupt
"""


def tried(folder: Path, tests: str, *options: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(tests)
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True)

    failed = run("-m", "pytest", "-q", "--cache-clear", "test_it.py", *options)
    ran = run(str(TOOL), str(failed.returncode))
    return ran.returncode, ran.stdout


def test_what_passes_alone_passes_and_is_named(tmp_path: Path) -> None:
    status, said = tried(tmp_path, UNSTEADY)
    assert status == 0
    assert "UNSTEADY: failed, then passed when run alone: test_it.py::test_second" in said


@pytest.mark.parametrize(("count", "again"), [(2, True), (11, False)])
def test_what_fails_again_or_in_numbers_fails(tmp_path: Path, count: int, again: bool) -> None:
    status, said = tried(tmp_path, BROKEN.format(count=count))
    assert status == 1
    assert ("once more" in said) == again
    assert "UNSTEADY" not in said


def test_a_run_that_was_broken_off_is_not_saved_by_a_second_try(tmp_path: Path) -> None:
    """Its one failure would pass now, and what it has not tried would never be."""
    (tmp_path / "conftest.py").write_text(BROKEN_OFF)
    status, said = tried(tmp_path, UNSTEADY + "\ndef test_never_tried():\n    assert False\n")
    assert status == 2
    assert "once more" not in said
