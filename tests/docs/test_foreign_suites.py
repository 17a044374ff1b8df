"""The page of the frameworks' own tests names every suite, and a run of some keeps the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from foreign_suites import PAGE, SUITES, Result, page, run_pytest


def test_every_foreign_suite_has_a_row_without_failures() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for suite in SUITES:
        (row,) = (line for line in lines if line.startswith(f"| {suite.what} | "))
        release, passed, failed = row.split(" | ")[1:4]
        assert release == f"`{suite.release}`"
        assert int(passed) > 0
        assert failed == "0"


def test_foreign_suites_that_did_not_run_keep_what_the_page_said_of_them() -> None:
    before = PAGE.read_text("utf-8")
    assert page([], before) == before
    last = SUITES[-1]
    result = Result(last, 12345, [], {"a reason": ["test_one[a]", "test_one[b]"]})
    after = page([result], before)
    (row,) = (line for line in before.splitlines() if line.startswith(f"| {last.what} | "))
    own = row.split(" | ")[-1]
    assert f"| {last.what} | `{last.release}` | 12345 | 0 | 2 | {own}" in after
    assert "| `test_one` | a reason |" in after
    head, _, rest = before.partition(f"## What does not apply: {last.what}\n")
    assert rest
    assert rest not in after
    for line in head.splitlines():
        assert line in after or line.startswith(f"| {last.what} | ")


def test_the_last_column_names_what_fails_with_the_framework_s_own_store() -> None:
    own = {"a.B::test_one[a]": False, "a.B::test_one[b]": False, "a.C::test_two": True}
    after = page([Result(SUITES[-1], 3, [], {}, own)], "")
    assert " | 3 | 0 | 0 | 1/2: `test_one` |" in after
    assert " | 3 | 0 | 0 | not run |" in page([Result(SUITES[-1], 3, [], {})], "")


def test_a_run_without_tests_is_an_error(tmp_path: Path) -> None:
    suite = SUITES[0]._replace(name="empty", tests=("tests",), needs=(), select="", plugin="empty")
    (tmp_path / "empty" / "tests").mkdir(parents=True)
    (tmp_path / "venv-empty" / "bin").mkdir(parents=True)
    (tmp_path / "venv-empty" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "venv-empty" / "needs.txt").write_text("msgspec\napsw")
    with pytest.raises(SystemExit, match="empty-own: no test ran"):
        run_pytest(suite, tmp_path, "empty-own")
