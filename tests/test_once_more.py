"""A second try is for a few tests, is made aloud, and forgives nothing that fails again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "once_more.py"
PLUGIN = """
from once_more import Causes

def pytest_configure(config):
    config.pluginmanager.register(Causes(config.cache))
"""
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

# One fixture that cannot be had, for tests in two files: the first time, a server of another has
# its port; the second time it comes up.
SHARED = """
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def server():
    tried = Path("tried")
    before = tried.exists()
    tried.touch()
    assert before, "port taken"

@pytest.mark.parametrize("n", range(30))
def test_it(server, n):
    assert {outcome}
"""

BROKEN_OFF = """
def pytest_runtest_logreport(report):
    if report.failed:
        raise KeyboardInterrupt
"""


def tried(folder: Path, tests: str, *options: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(tests)
    where = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TOOL.parent)}
    plain = {**os.environ, **where}
    with (folder / "conftest.py").open("a") as conftest:
        conftest.write(PLUGIN)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True)

    failed = run("-m", "pytest", "-q", "--cache-clear", "test_it.py", *options)
    ran = run(str(TOOL), ".pytest_cache", str(failed.returncode))
    return ran.returncode, ran.stdout


def test_what_passes_alone_passes_and_is_named(tmp_path: Path) -> None:
    status, said = tried(tmp_path, UNSTEADY)
    assert status == 0
    assert said.splitlines()[-2:] == [
        "run again, alone, after a failure:",
        "  UNSTEADY: passed alone: test_it.py::test_second_time_lucky",
    ]


def test_a_fixture_that_failed_counts_once_for_all_its_tests(tmp_path: Path) -> None:
    status, said = tried(tmp_path, SHARED.format(outcome="True"))
    assert status == 0
    assert "once more, alone: 30 tests, which failed of 1 causes" in said
    assert said.count("UNSTEADY: passed alone: test_it.py::test_it[") == 30


def test_what_fails_again_after_its_fixture_did_is_named_as_failed(tmp_path: Path) -> None:
    status, said = tried(tmp_path, SHARED.format(outcome="n != 7"))
    assert status == 1
    assert said.count("FAILED AGAIN: test_it.py::test_it[7]") == 1
    assert said.count("UNSTEADY: passed alone: test_it.py::test_it[") == 29


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
