"""Any two features together keep what each of them promises."""

from __future__ import annotations

from collections import Counter

import pytest

from matrix.features import FEATURES
from matrix.runner import PAIRS, run, without

CHUNK = 35  # programs a test: three tests cross every pair once
CHUNKS = 9
SOAK_CHUNKS = 300
NEEDS_A_FRAMEWORK = ("adapter",)


def test_every_pair_of_features_is_crossed() -> None:
    assert len(PAIRS) == len(FEATURES) * (len(FEATURES) - 1) // 2
    assert len(PAIRS) * 3 == CHUNK * CHUNKS >= 300
    assert CHUNK * SOAK_CHUNKS >= 10_000


def test_one_program_of_every_pair_keeps_what_both_features_promise() -> None:
    seeds = without(NEEDS_A_FRAMEWORK, range(len(PAIRS)))
    assert_that_much_was_done(run(seeds), programs=len(seeds))


@pytest.mark.verify
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_drawn_programs_keep_what_both_features_promise(chunk: int) -> None:
    done = run(range(chunk * CHUNK, (chunk + 1) * CHUNK))
    assert_that_much_was_done(done, programs=CHUNK)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SOAK_CHUNKS))
def test_ten_thousand_programs_keep_what_both_features_promise(chunk: int) -> None:
    first = 1_000_000 + chunk * CHUNK
    done = run(range(first, first + CHUNK))
    assert_that_much_was_done(done, programs=CHUNK)


def assert_that_much_was_done(done: Counter[str], *, programs: int) -> None:
    """A run in which little happens proves little."""
    assert done.total() >= 9 * programs, done
    assert len(done) >= 20, done
