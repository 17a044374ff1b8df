"""What a newcomer writes first is understood, or refused with what to write instead."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stateward


def test_the_blocking_half_is_an_attribute_of_the_package() -> None:
    code = "import stateward\nwith stateward.sync.open('memory://') as store: print(store)"
    command = [sys.executable, "-W", "error", "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("<Store 'default'")
    assert "sync" in dir(stateward)


def test_the_blocking_half_is_imported_only_if_it_is_used() -> None:
    code = "import sys, stateward\nprint('stateward.sync' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_with_instead_of_async_with_says_what_to_write() -> None:
    wanted = pytest.raises(stateward.InvalidInput, match=r"async with .*stateward\.sync\.open")
    with wanted, stateward.open("memory://"):
        pytest.fail("the block is not entered")
