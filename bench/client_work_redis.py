"""What a call on Redis costs the client: bytecodes that Python carries out within the package.

    python -m bench.client_work_redis            a few seconds

What drivers and other code written in C do is not in it, nor is the server. A blocking caller, and
the engine with many operations at once; the median of `COUNTED` calls. A turn is two messages of
500 bytes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import stateward
import stateward.sync
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.ops import Append, Commit, Entity, Fetch, Log
from stateward.sync.engines.redis.engine import RedisEngine
from stateward.world import World

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.redis import running

PACKAGE = str(Path(stateward.__file__).parent)
CONVERSATIONS = 50
WARM, COUNTED = 30, 15
TEXT = "x" * 472
BODY = f'{{"role":"user","content":"{TEXT}"}}'


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


def main() -> None:
    world = World()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), "valkey") as server:
        engine = RedisEngine(parse_server(parse(server.url), world))
        engine.open()
        entities = [Entity("default", "thread", f"s-{n:05}") for n in range(CONVERSATIONS)]

        def append(entity: Entity) -> Commit:
            turn = Append((BODY, BODY))
            return Commit(entity, world.new_op(), (turn,), owner="u-42", retain=86_400.0)

        def last(entity: Entity) -> Fetch:
            return Fetch(entity, "u-42", Log(last=20))

        with stateward.sync.open(server.url, spill=False) as store:
            thread = store.thread("s-00000", user="u-42")
            message = {"role": "user", "content": TEXT}
            calls: list[tuple[str, Callable[[], object], int]] = [
                ("append, engine", lambda: engine.execute([append(entities[0])]), 1),
                ("last 20, engine", lambda: engine.execute([last(entities[0])]), 1),
                ("append, 50 at once", lambda: engine.execute([*map(append, entities)]), 50),
                ("last 20, 50 at once", lambda: engine.execute([*map(last, entities)]), 50),
                ("append, store", lambda: thread.append(message, message), 1),
                ("last 20, store", lambda: thread.load(last=20), 1),
            ]
            for _ in range(WARM):
                engine.execute([*map(append, entities)])
            for name, work, operations in calls:
                for _ in range(WARM):
                    work()
                counted = median_low([bytecodes(work) for _ in range(COUNTED)])
                print(f"{name:24}{counted / operations:>10,.0f}")
        engine.close()


if __name__ == "__main__":
    main()
