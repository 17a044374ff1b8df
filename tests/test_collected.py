"""What is left out of a run is run elsewhere, and what fails is explained at once."""

from __future__ import annotations

import collected
import pytest

TESTS = [
    *(f"a.py::test_many[{number}]" for number in range(21)),
    *(f"a.py::test_two[{number}]" for number in range(2)),
    "b.py::test_one",
]


def test_versions_of_python_that_follow_each_other_share_all_tests() -> None:
    shares = [collected.share(TESTS, version) for version in range(11, 11 + collected.SHARES)]
    assert set().union(*shares) == set(TESTS)


def test_every_version_of_python_runs_every_function_and_few_of_its_parameters() -> None:
    for version in range(11, 15):
        share = collected.share(TESTS, version)
        assert {test.partition("[")[0] for test in share} == {
            "a.py::test_many",
            "a.py::test_two",
            "b.py::test_one",
        }
        assert len(share) <= 21 // collected.SHARES + 1 + 1 + 1


def test_the_comparison_of_two_long_lists_is_explained_in_few_words() -> None:
    """Also where CI runs the tests: a full explanation takes minutes."""
    left = [{"number": number, "text": "text"} for number in range(300)]
    right = [{"number": number + 1, "text": "text"} for number in range(300)]
    with pytest.raises(AssertionError) as failed:
        assert left == right
    assert len(str(failed.value)) < 2000
