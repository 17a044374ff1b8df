"""Four processes append to one file: is anything lost, and how long does the slowest wait?

    python -m bench.processes CONTESTANT PATH NUMBER

is one of them. It says `ready`, then for each line `turns N` appends that many and answers with
the nanoseconds each took.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.contestants.ours import Stateward, StatewardSync
from bench.contestants.raw_sqlite3 import RawSqlite3
from bench.conversations import Population, message
from bench.driving import Tasks, Threads, Until

PROCESSES = 4
COMMON = "common"  # a conversation that all of them write to, in turn with one of their own
USER = "u-0"
ALL = 1_000_000
WRITERS: dict[str, Any] = {each.name: each for each in (RawSqlite3, StatewardSync, Stateward)}

Fill = dict[str, Callable[[str, Population], None]]


@dataclass
class Race:
    """What the processes of one contestant did."""

    name: str
    rounds: list[list[int]] = field(default_factory=list)  # nanoseconds of each append
    turns: int = 0
    lost: int = 0
    split: int = 0  # turns of the common conversation with another's message inside


def race(folder: Path, fill: Fill, *, rounds: int, turns: int) -> list[Race]:
    """Stateward in both colours and the raw driver, round by round."""
    crews = []
    try:
        for name, contestant in WRITERS.items():
            path = str(folder / f"processes-{name}.db")
            fill[contestant.layout](path, Population(users=1))
            crews.append(_Crew(name, path))
        for _ in range(rounds):
            for crew in crews:
                crew.append(turns)
    finally:
        for crew in crews:
            crew.end()
    for crew in crews:
        crew.count()
    return [crew.race for crew in crews]


class _Crew:
    """Four processes that wait for their turn."""

    def __init__(self, name: str, path: str) -> None:
        self.race = Race(name)
        self._path = path
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.processes", name, path, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]
        for process in self._processes:
            if self._line(process) != "ready":
                raise SystemExit(f"a process of {name} did not start")

    def append(self, turns: int) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"turns {turns}\n")
            process.stdin.flush()
        took = [ns for process in self._processes for ns in json.loads(self._line(process))]
        self.race.rounds.append(took)
        self.race.turns += len(took)

    def end(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()

    def count(self) -> None:
        """Read the file back."""
        ready = _ready(self.race.name, self._path)
        kept = 0
        for thread in (COMMON, *(f"own-{n}" for n in range(PROCESSES))):
            messages = ready.once("last", thread, USER, ALL)
            kept += len(messages)
            pairs = zip(messages[::2], messages[1::2], strict=True)
            self.race.split += sum(a["by"] != b["by"] or a["turn"] != b["turn"] for a, b in pairs)
        ready.close()
        self.race.lost = 2 * self.race.turns - kept

    def _line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()


def _ready(name: str, path: str) -> Threads | Tasks:
    contestant = WRITERS[name](path)
    return Threads(contestant, 1) if contestant.colour == "sync" else Tasks(contestant, "asyncio")


def _append(name: str, path: str, number: int) -> None:
    ready = _ready(name, path)
    print("ready", flush=True)
    begun = 0
    for line in sys.stdin:
        turns = int(line.split()[1])
        calls = [
            (COMMON if n % 2 else f"own-{number}", USER, _turn(number, n))
            for n in range(begun, begun + turns)
        ]
        begun += turns
        until = Until(seconds=60, most=turns)
        print(json.dumps(ready.slot("append", [calls], until).took), flush=True)
    ready.close()


def _turn(by: int, number: int) -> tuple[dict[str, object], dict[str, object]]:
    marks = {"by": by, "turn": number}
    return message("user", number) | marks, message("assistant", number) | marks


if __name__ == "__main__":
    _append(sys.argv[1], sys.argv[2], int(sys.argv[3]))
