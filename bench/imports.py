"""What `import stateward` adds to a process that already has asyncio and msgspec."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

MODULES = ("stateward", "stateward.sync")
DRIVERS = ("apsw", "sqlite3", "redis", "psycopg", "asyncpg")

# As an installed package is: the first round compiles what is not compiled yet.
COMPILED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

_CHILD = """
import asyncio, json, sys
import msgspec
from time import perf_counter
start = perf_counter()
import {module}
took = perf_counter() - start
print(json.dumps([took * 1000, [name for name in {drivers!r} if name in sys.modules]]))
"""


@dataclass(frozen=True)
class Imported:
    module: str
    milliseconds: list[float]  # one a fresh process
    drivers: list[str]  # imported though no URL was used


def measure(rounds: int) -> list[Imported]:
    """Fresh processes in turn; the first round only warms the file cache."""
    times: dict[str, list[float]] = {module: [] for module in MODULES}
    drivers: dict[str, set[str]] = {module: set() for module in MODULES}
    for number in range(rounds + 1):
        for module in MODULES:
            code = _CHILD.format(module=module, drivers=DRIVERS)
            said = subprocess.run(
                [sys.executable, "-c", code],
                check=True,
                capture_output=True,
                text=True,
                env=COMPILED,
            )
            took, loaded = json.loads(said.stdout)
            drivers[module].update(loaded)
            if number:
                times[module].append(took)
    return [Imported(m, times[m], sorted(drivers[m])) for m in MODULES]
