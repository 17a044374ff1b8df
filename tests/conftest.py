"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _spill_away_from_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test keeps locally stays out of the home of whoever runs it."""
    before = os.environ.get("HOLDFAST_SPILL")
    os.environ["HOLDFAST_SPILL"] = str(tmp_path_factory.mktemp("spill"))
    yield
    del os.environ["HOLDFAST_SPILL"]
    if before is not None:
        os.environ["HOLDFAST_SPILL"] = before
