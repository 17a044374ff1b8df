"""What a call on Redis costs the client, in two measures.

    python -m bench.client_work_redis                   a few seconds
    python -m bench.client_work_redis --instructions    some minutes, with valgrind

The first counts bytecodes that Python carries out within the package; what drivers and other code
written in C do is not in it. The second counts the instructions of the whole process beside those
of redis-py, blocking. The server and the kernel are in neither. A turn is two messages of 500
bytes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import stateward
import stateward.sync
from bench.client_work_sqlite import COUNTED, WARM, counted_total, mark_for_valgrind
from bench.contestants import ours, raw_redis
from bench.contestants.ours import StatewardSyncRedis
from bench.contestants.raw_redis import RawRedis, SafeRedis
from bench.contestants.shape import Blocking
from bench.conversations import LAST, Population, turn
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.ops import Append, Commit, Entity, Fetch, Log
from stateward.sync.engines.redis.engine import RedisEngine
from stateward.world import World

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.redis import running

PACKAGE = str(Path(stateward.__file__).parent)
CONVERSATIONS = 50
MEDIAN_OF = 15
TEXT = "x" * 472
BODY = f'{{"role":"user","content":"{TEXT}"}}'
CALLS = ("append", "last", "context")
POPULATION = Population({100: 10}, users=10)
CONTESTANTS: dict[str, type[Blocking]] = {
    "redis-py": RawRedis,
    "redis-py, key and expiry": SafeRedis,
    "stateward.sync": StatewardSyncRedis,
}


def bytecodes(work: Callable[[], object]) -> int:
    """How many one call takes."""
    count = 0

    def called(frame: FrameType, _event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    def inside(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return inside

    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def count_bytecodes(url: str) -> None:
    world = World()
    engine = RedisEngine(parse_server(parse(url), world))
    engine.open()
    entities = [Entity("default", "thread", f"s-{n:05}") for n in range(CONVERSATIONS)]

    def append(entity: Entity) -> Commit:
        turn = Append((BODY, BODY))
        return Commit(entity, world.new_op(), (turn,), owner="u-42", retain=86_400.0)

    def last(entity: Entity) -> Fetch:
        return Fetch(entity, "u-42", Log(last=20))

    with stateward.sync.open(url, spill=False) as store:
        thread = store.thread("s-00000", user="u-42")
        message = {"role": "user", "content": TEXT}
        store.user("u-42").put({"tier": "gold"})
        calls: list[tuple[str, Callable[[], object], int]] = [
            ("append, engine", lambda: engine.execute([append(entities[0])]), 1),
            ("last 20, engine", lambda: engine.execute([last(entities[0])]), 1),
            ("append, 50 at once", lambda: engine.execute([*map(append, entities)]), 50),
            ("last 20, 50 at once", lambda: engine.execute([*map(last, entities)]), 50),
            ("append, store", lambda: thread.append(message, message), 1),
            ("last 20, store", lambda: thread.load(last=20), 1),
            ("context, store", lambda: store.context(user="u-42", thread="s-00000", last=20), 1),
        ]
        for _ in range(WARM):
            engine.execute([*map(append, entities)])
        for name, work, operations in calls:
            for _ in range(WARM):
                work()
            counted = median_low([bytecodes(work) for _ in range(MEDIAN_OF)])
            print(f"{name:24}{counted / operations:>10,.0f}")
    engine.close()


# --- counted by valgrind ----------------------------------------------------------------


def session(name: str, url: str) -> None:
    """The calls of one contestant; what is counted is between two marks."""
    contestant: Any = CONTESTANTS[name](url)
    contestant.open()
    for what in CALLS:
        for number in range(WARM + COUNTED):
            if number == WARM:
                mark_for_valgrind()
            thread, user = f"h100-{number % 10}", POPULATION.user(number)
            third = turn(number) if what == "append" else LAST
            getattr(contestant, what)(thread, user, third)
        mark_for_valgrind()
    contestant.close()


def instructions(name: str, url: str, folder: Path) -> list[float]:
    """Of each call, in thousands."""
    counts = folder / f"counts-{name.split(',')[0]}-{len(name)}"
    done = subprocess.run(
        [
            *("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counts}"),
            *("--dump-before=getpgid", os.path.realpath(sys.executable)),
            *("-m", __spec__.name, "--session", name, url),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed")
    # Before the first call of all, then of each call: its warm ones, those that count.
    parts = [Path(f"{counts}.{2 * number + 2}") for number in range(len(CALLS))]
    return [counted_total(part) / COUNTED / 1000 for part in parts]


def count_instructions(folder: Path) -> None:
    found: dict[str, list[float]] = {}
    for name in CONTESTANTS:
        place = folder / f"server-{len(found)}"
        place.mkdir()
        with running(place, "valkey") as server:
            (ours.fill_server if "stateward" in name else raw_redis.fill)(server.url, POPULATION)
            found[name] = instructions(name, server.url, folder)
    floor = next(iter(found.values()))
    print("thousand instructions a call; in brackets beside redis-py")
    for number, what in enumerate(CALLS):
        each = (
            f"{name} {of[number]:.0f} ({of[number] / floor[number]:.2f})"
            for name, of in found.items()
        )
        print(f"{what:8}", *each, sep="  ")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--instructions", action="store_true")
    options.add_argument("--session", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--keep", type=Path, help="where callgrind's files stay")
    chosen = options.parse_args()
    if chosen.session:
        session(*chosen.session)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) if chosen.keep is None else chosen.keep
        if chosen.instructions:
            count_instructions(folder)
            return
        with running(folder, "valkey") as server:
            count_bytecodes(server.url)


if __name__ == "__main__":
    main()
