"""The page of the frameworks' own tests names every suite, and a run of some keeps the others."""

from __future__ import annotations

from foreign_suites import PAGE, SUITES, Result, page


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
    after = page([Result(last, 12345, [], {"a reason": ["test_one[a]", "test_one[b]"]})], before)
    assert f"| {last.what} | `{last.release}` | 12345 | 0 | 2 |" in after
    assert "| `test_one` | a reason |" in after
    head, _, rest = before.partition(f"## What does not apply: {last.what}\n")
    assert rest
    assert rest not in after
    for line in head.splitlines():
        assert line in after or line.startswith(f"| {last.what} | ")
