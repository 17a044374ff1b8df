"""Defects that were fixed once can be planted again, and the tests still find them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import planted
import planted_matrix


def test_every_old_defect_can_still_be_planted() -> None:
    assert len(planted.DEFECTS) == 20
    listed = subprocess.run(
        [sys.executable, planted.__file__, "--list"], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr


def test_each_defect_for_drawn_programs_can_still_be_planted() -> None:
    listed = subprocess.run(
        [sys.executable, planted_matrix.__file__, "--list"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr


@pytest.mark.soak
def test_drawn_programs_find_most_planted_defects() -> None:
    subprocess.run([sys.executable, planted_matrix.__file__], check=True)


@pytest.mark.soak
def test_every_planted_defect_is_found() -> None:
    subprocess.run([sys.executable, planted.__file__, "--sound"], check=True)
