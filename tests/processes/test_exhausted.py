"""A moment without threads, files or memory: no call hangs, and all works again afterwards."""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory

import pytest

from processes.conftest import Start

SHORTAGES = [
    "no thread",
    "one thread",
    "1 files",
    "0 MB",
    *(pytest.param(f"{n} files", marks=pytest.mark.soak) for n in (0, 2, 3, 4, 5)),
    *(pytest.param(f"{n} MB", marks=pytest.mark.soak) for n in (1, 4, 16)),
]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux counts them")


@pytest.mark.parametrize("shortage", SHORTAGES)
@pytest.mark.parametrize("colour", ["async", "sync"])
def test_calls_at_a_moment_of_exhaustion_fail_in_time_and_all_work_afterwards(
    start: Start, colour: str, shortage: str
) -> None:
    if "thread" in shortage and os.geteuid() != 0:
        pytest.skip("other programs of this account count for the limit")
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # the process changes its account
        facts = start("exhausted", folder, colour, shortage).report()
    assert facts["first"] == ["stored", "spilled"]
    bad = [each for each in facts["during"] if each.startswith(("HANGS", "RAISES"))]
    assert not bad, "a call hung, or raised what no caller expects"
    assert facts["after"] == ["stored", "spilled", "stored"] * 6
    version, stored = facts["there"]
    assert version >= stored, "an answer was not kept"
    assert facts["lock"] in ("held", "StoreUnavailable no"), "a lease was lost in silence"
    assert facts["lock after"] == "held"
