"""Run the tests that have just failed once more, alone.

Tests here start hundreds of real servers and kill real processes. A machine that is busy with
something else can hold one up past any patience, and that says nothing about the code. So a few
failures get a second try without company, and are named aloud if they pass it; many do not.

    python -m pytest … || python tools/once_more.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 6  # of twelve thousand


def main() -> int:
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
    sys.exit(main())
