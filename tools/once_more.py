"""Run the tests that have just failed once more, alone.

Tests here start hundreds of real servers and kill real processes. A machine that is busy with
something else can hold one up past any patience, and that says nothing about the code. So failures
of a few causes get a second try without company, and are named aloud; failures of many causes do
not. A fixture that failed is one cause, however many tests wanted it. Nor does a run that was
broken off get a second try: what it has not tried would be lost.

    python -m pytest --cache-clear … || python tools/once_more.py .pytest_cache $?
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LAST_FAILED = Path("v", "cache", "lastfailed")  # in pytest's cache
CAUSES = Path("v", "stateward", "causes")
MOST = 10  # causes, of thousands of tests
FAILED = 1  # pytest's status when it has run all tests, and some have failed


class Causes:
    """Plugin of pytest that writes down what each failed test failed of.

    A fixture that fails is cached with its exception, so all tests that want it fail at one place.
    """

    def __init__(self, cache: pytest.Cache) -> None:
        self._cache = cache
        self._causes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            in_test = report.when == "call"
            self._causes[report.nodeid] = report.nodeid if in_test else _first_place(report)

    def pytest_sessionfinish(self) -> None:
        self._cache.set("stateward/causes", self._causes)


def _first_place(report: pytest.TestReport) -> str:
    """Return file and line of the fixture in which an error began."""
    traceback = getattr(report.longrepr, "reprtraceback", None)
    for entry in traceback.reprentries if traceback else ():
        place = getattr(entry, "reprfileloc", None)
        if place is not None:
            return f"{place.path}:{place.lineno}"
    return report.nodeid


def main(cache: Path, status: int) -> int:
    if status != FAILED:
        return status
    failed = sorted(_read(cache / LAST_FAILED))
    causes = _read(cache / CAUSES)
    count = len({causes.get(test, test) for test in failed})
    if not 0 < count <= MOST:
        print(f"\nnot tried again: {len(failed)} tests failed of {count} causes", flush=True)
        return 1
    print(f"\nonce more, alone: {len(failed)} tests, which failed of {count} causes", flush=True)
    again = [sys.executable, "-m", "pytest", "-q", "--no-header", "-o", f"cache_dir={cache}"]
    status = subprocess.run([*again, *failed], check=False).returncode
    still = _read(cache / LAST_FAILED)
    print("\nrun again, alone, after a failure:", flush=True)
    for test in failed:
        outcome = "FAILED AGAIN" if test in still or status > FAILED else "UNSTEADY: passed alone"
        print(f"  {outcome}: {test}", flush=True)
    return status


def _read(path: Path) -> dict[str, str]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
