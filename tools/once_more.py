"""Run the tests that have just failed once more, alone.

Tests here start hundreds of real servers and kill real processes. A machine that is busy with
something else can hold one up past any patience, and that says nothing about the code. So a few
failures get a second try without company, and are named aloud if they pass it; many do not. Nor
does a run that was broken off: what it has not tried would be lost.

    python -m pytest --cache-clear … || python tools/once_more.py $?
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 10  # of fifteen thousand: a server that several tests share may die under all of them
FAILED = 1  # pytest's status when it has run all tests, and some have failed


def main(status: int = FAILED) -> int:
    if status != FAILED:
        return status
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"\nonce more, alone: {len(failed)} of the tests", flush=True)
    again = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:xdist", *failed]
    status = subprocess.run(again, check=False).returncode
    if status == 0:
        for test in failed:
            print(f"UNSTEADY: failed, then passed when run alone: {test}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
