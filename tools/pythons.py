"""Print the Python interpreters on this machine that Stateward supports, one path for each version.

    python tools/pythons.py             all of them
    python tools/pythons.py --others    without the version that runs this script

Looked through are PATH and the versions that pyenv has installed. A name on PATH may be a shim
that starts nothing, so each candidate is run; of one version the newest patch release counts.
`make verify` runs `make test` on each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)
SECONDS = 20  # for an interpreter to say its version
ASK = "import sys, venv, ensurepip; print(sys.implementation.name, *sys.version_info[:4])"

Version = tuple[int, int, int]


def candidates() -> Iterator[Path]:
    """Files that may be a supported interpreter."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from (Path(folder, name) for name in names)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(versions.glob("3.*/bin/python3"))


def version_of(python: Path) -> Version | None:
    """Return the version of a released CPython that can make virtual environments, or None."""
    try:
        done = subprocess.run(
            [python, "-c", ASK], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match done.stdout.split():
        case ["cpython", major, minor, patch, "final"] if not done.returncode:
            return (int(major), int(minor), int(patch))
    return None


def interpreters() -> dict[tuple[int, int], Path]:
    """Return the interpreter with the newest patch release of each supported version."""
    newest: dict[tuple[int, int], tuple[Version, Path]] = {}
    for python in candidates():
        version = version_of(python) if os.access(python, os.X_OK) else None
        if version is None or not OLDEST <= version[:2] <= NEWEST:
            continue
        if version[:2] not in newest or newest[version[:2]][0] < version:
            newest[version[:2]] = (version, python)
    return {minor: python for minor, (_, python) in sorted(newest.items())}


def main(argv: list[str]) -> None:
    for minor, python in interpreters().items():
        if "--others" not in argv or minor != sys.version_info[:2]:
            print(python)


if __name__ == "__main__":
    main(sys.argv[1:])
