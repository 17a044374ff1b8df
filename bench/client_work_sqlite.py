"""What a call costs the process on SQLite: instructions of Python, driver and SQLite together.

    python -m bench.client_work_sqlite                      # some minutes, with valgrind
    python -m bench.client_work_sqlite --only context last  # these calls alone
    python -m bench.client_work_sqlite --bytecodes          # of the process's Python, no valgrind

Times move with whatever else the machine does; these figures agree within 1 % from run to run. The
kernel's share, such as the wait for the disk, is not in them. Each contestant makes its calls in a
process of its own; what is counted is told apart by calls of a function that nobody else calls.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from bench.contestants import ours, raw
from bench.contestants.ours import Stateward, StatewardSync
from bench.contestants.raw_apsw import RawApsw
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import LAST, Population, turn
from bench.coordination import Raw

CALLS = ("append", "last", "context", "task", "hit")
WARM, COUNTED = 30, 60
POPULATION = Population({100: 10}, users=10)
CONTESTANTS: dict[str, type[Blocking] | type[Awaited]] = {
    "apsw": RawApsw,
    "stateward.sync": StatewardSync,
    "stateward": Stateward,
}


def _one() -> int:
    return 1


class Session:
    """All calls of one contestant, by name."""

    def __init__(self, name: str, folder: Path) -> None:
        layout = "raw" if name == "apsw" else "ours"
        path = str(folder / f"{layout}.db")
        (raw if layout == "raw" else ours).fill(path, POPULATION)
        self._contestant: Any = CONTESTANTS[name](path)
        self._tasks: Any = Raw(folder / "tasks.db") if layout == "raw" else self._contestant._store

    def call(self, what: str, number: int) -> Any:
        thread, user = f"h100-{number % 10}", POPULATION.user(number)
        if what == "append":
            return self._contestant.append(thread, user, turn(number))
        if what in ("last", "context"):
            return getattr(self._contestant, what)(thread, user, LAST)
        id_ = f"t-{number}" if what == "task" else "t-0"
        if isinstance(self._tasks, Raw):
            return getattr(self._tasks, what)(id_)
        return self._tasks.once(id_, _one)

    def open(self) -> Any:
        return self._contestant.open()

    def close(self) -> Any:
        return self._contestant.close()


def blocking(session: Session, calls: Sequence[str], mark: Callable[[], None]) -> None:
    session.open()
    for what in calls:
        for number in range(WARM):
            session.call(what, number)
        mark()
        for number in range(WARM, WARM + COUNTED):
            session.call(what, number)
        mark()
    session.close()


async def awaiting(session: Session, calls: Sequence[str], mark: Callable[[], None]) -> None:
    await session.open()
    for what in calls:
        for number in range(WARM):
            await session.call(what, number)
        mark()
        for number in range(WARM, WARM + COUNTED):
            await session.call(what, number)
        mark()
    await session.close()


def run(name: str, calls: Sequence[str], folder: Path, mark: Callable[[], None]) -> None:
    session = Session(name, folder)
    if name == "stateward":
        asyncio.run(awaiting(session, calls, mark))
    else:
        blocking(session, calls, mark)


# --- counted by valgrind ----------------------------------------------------------------


def mark_for_valgrind() -> None:
    os.getpgid(0)


def instructions(name: str, calls: Sequence[str], keep: Path | None) -> dict[str, float]:
    """Of each call, in thousands."""
    with tempfile.TemporaryDirectory(prefix="stateward-work-") as place:
        folder = Path(place)
        counts = (keep or folder) / f"counts-{name}"
        done = subprocess.run(
            [
                *("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counts}"),
                *("--dump-before=getpgid", os.path.realpath(sys.executable)),
                *("-m", __spec__.name, "--session", name, str(folder), "--only", *calls),
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{name} failed")
        # Before the first call of all, then of each call: its warm ones, those that count.
        return {
            what: counted_total(Path(f"{counts}.{2 * number + 2}")) / COUNTED / 1000
            for number, what in enumerate(calls)
        }


def counted_total(counts: Path) -> int:
    for line in counts.read_text("utf-8", "replace").splitlines()[::-1]:
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise SystemExit(f"{counts} has no totals")


# --- counted by Python ------------------------------------------------------------------


class Bytecodes:
    """Bytecodes that were executed by the thread of the caller, in all of its Python."""

    def __init__(self) -> None:
        self.counted: list[int] = []
        self._count = 0
        self._counting = False

    def mark(self) -> None:
        if self._counting:
            sys.settrace(None)
            self._counting = False
            self.counted.append(self._count)
            return
        self._count, self._counting = 0, True
        sys.settrace(self._called)
        frame: FrameType | None = sys._getframe()
        while frame is not None:  # functions that are under way are not announced
            frame.f_trace_opcodes, frame.f_trace = True, self._inside
            frame = frame.f_back

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            self._count += 1
        return self._inside


def bytecodes(name: str, calls: Sequence[str]) -> dict[str, float]:
    counter = Bytecodes()
    with tempfile.TemporaryDirectory(prefix="stateward-work-") as folder:
        run(name, calls, Path(folder), counter.mark)
    return {
        what: count / COUNTED / 1000 for what, count in zip(calls, counter.counted, strict=True)
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--only", nargs="+", choices=CALLS, default=CALLS)
    options.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    options.add_argument("--bytecodes", action="store_true")
    options.add_argument("--keep", type=Path, help="where callgrind's files stay")
    options.add_argument("--session", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    calls = [what for what in CALLS if what in chosen.only]
    if chosen.session:
        name, folder = chosen.session
        run(name, calls, Path(folder), mark_for_valgrind)
        return
    found: dict[str, dict[str, float]] = {}
    for name in chosen.contestants:
        if chosen.bytecodes:
            found[name] = bytecodes(name, calls)
        else:
            found[name] = instructions(name, calls, chosen.keep)
    unit = "thousand bytecodes" if chosen.bytecodes else "thousand instructions"
    print(f"{unit} a call; in brackets beside {next(iter(found))}")
    floor = next(iter(found.values()))
    for what in calls:
        each = (
            f"{name} {of[what]:.2f} ({of[what] / floor[what]:.2f})" for name, of in found.items()
        )
        print(f"{what:8}", *each, sep="  ")


if __name__ == "__main__":
    main()
