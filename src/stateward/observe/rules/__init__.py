"""Alert rules and dashboards, as files beside this one.

    python -m stateward.observe.rules DIRECTORY

copies them there. What each is for is in `docs/how-to/monitor.md`.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
SUFFIXES = (".yml", ".json")


def files() -> list[Path]:
    """Return the paths of all rule files by name."""
    return sorted(path for path in HERE.iterdir() if path.suffix in SUFFIXES)
