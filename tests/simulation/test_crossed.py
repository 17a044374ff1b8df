"""Drawn programs that cross two features agree with a plain model of them."""

from __future__ import annotations

import pytest

from simulation import run_many

CHUNK = 75
SOAK_CHUNK = 1_000


@pytest.mark.parametrize("chunk", range(4))
def test_two_features_together_do_what_the_model_says(chunk: int) -> None:
    """Each pair of the matrix four or five times."""
    done = run_many("crossed", range(chunk * CHUNK, (chunk + 1) * CHUNK))
    assert done.operations >= 40 * CHUNK


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(10))
def test_two_features_together_do_what_the_model_says_ten_thousand_times(chunk: int) -> None:
    first = 300 + chunk * SOAK_CHUNK
    assert run_many("crossed", range(first, first + SOAK_CHUNK)).operations > SOAK_CHUNK
