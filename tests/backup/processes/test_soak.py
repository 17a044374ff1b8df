"""A hundred thousand messages, from every engine into every other, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from backup.conftest import ENGINES, PERSISTENT, NewStore
from backup.states import everything, fill
from stateward import sync
from stateward.transfer.backup import backup, restore

THREADS, MESSAGES = 1000, 100


def fill_much(url: str, threads: int = THREADS, messages: int = MESSAGES) -> None:
    fill(url)
    with sync.open(url) as store:
        for number in range(threads):
            thread = store.thread(f"many-{number}", user=f"u-{number % 50}")
            for start in range(0, messages, 50):
                some = ({"role": "user", "content": f"{number} {start + n}" * 8} for n in range(50))
                thread.append(*some, key=f"k-{start}")


@pytest.mark.soak
@pytest.mark.parametrize("source", ENGINES)
def test_a_hundred_thousand_messages_into_every_engine(
    source: str, new_store: NewStore, tmp_path: Path
) -> None:
    old = new_store(source)
    fill_much(old)
    path = str(tmp_path / "a.backup")
    assert backup(old, path).messages > 100_000
    there = everything(old)
    for target in ENGINES:
        new = new_store(target)
        restore(path, new)
        assert everything(new) == there, target


PEAK = """
import json, resource, sys
from stateward.cli import main
code = main(json.loads(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak(*words: str) -> int:
    """The most memory that a command took, in bytes."""
    command = [sys.executable, "-c", PEAK, json.dumps(words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return int(ran.stderr) * 1024


@pytest.mark.soak
@pytest.mark.parametrize("engine", PERSISTENT)
def test_memory_does_not_grow_with_the_store(
    engine: str, new_store: NewStore, tmp_path: Path
) -> None:
    """Neither with many conversations nor with long ones."""
    peaks = []
    for size in (1, 20):
        url = new_store(engine)
        fill_much(url, threads=50 * size, messages=100)
        with sync.open(url) as store:
            for _ in range(10 * size):
                store.thread("long").append(*({"t": "x" * 1000} for _ in range(500)))
        path = str(tmp_path / f"{size}.backup")
        peaks.append(
            (
                peak("backup", url, path),
                peak("verify", path),
                peak("restore", path, new_store(engine)),
                peak("copy", url, new_store(engine)),
            )
        )
    for small, large in zip(*peaks, strict=True):
        assert large < small + 40 * 1024 * 1024, peaks
