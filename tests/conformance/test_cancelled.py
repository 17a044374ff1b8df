"""A caller that is cancelled inside `execute` disturbs nobody, below the coalescer too."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
import uvloop

from stateward.engine import Engine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.sqlite.engine import SqliteEngine
from stateward.engines.sqlite.file import File
from stateward.ops import Append, Applied, Commit, Entity, Fetch, Fetched, Log
from stateward.world import World

CALLS = 200


def make_engine(name: str, folder: Path) -> Engine:
    world = World()
    if name == "memory":
        return MemoryEngine(Model(), world)
    return SqliteEngine(File(str(folder / "store.db"), relaxed=True, migrate=True, world=world))


def turn(number: int, op: str) -> Commit:
    """Two entries that name their call, on an entity of their own."""
    entity = Entity("n", "thread", f"{number}")
    return Commit(entity, op, (Append((f'"{number} a"', f'"{number} b"')),))


async def cancel_many(engine: Engine) -> None:
    chance = random.Random(7)
    world = World()
    handed_over: list[int] = []
    for number in range(CALLS):
        calling = asyncio.create_task(engine.execute([turn(number, world.new_id())]))
        steps = chance.randrange(3)
        for _ in range(steps):
            await asyncio.sleep(0)
        calling.cancel()
        if steps:
            handed_over.append(number)
        # The next caller gets its own replies, not those of the one that left.
        mine = CALLS + number
        applied, seen = await engine.execute(
            [turn(mine, world.new_id()), Fetch(Entity("n", "thread", f"{mine - 1}"), log=Log())]
        )
        assert isinstance(applied, Applied)
        assert applied.version == 2
        assert isinstance(seen, Fetched)
        assert seen.lines == ("" if number == 0 else f'"{mine - 1} a"\n"{mine - 1} b"')
    assert len(handed_over) > CALLS // 3
    await engine.close()
    await engine.open()
    for number in range(CALLS):
        fetch = Fetch(Entity("n", "thread", f"{number}"), log=Log())
        seen = (await engine.execute([fetch]))[0]
        assert isinstance(seen, Fetched)
        whole = f'"{number} a"\n"{number} b"'
        assert seen.lines == whole if number in handed_over else seen.lines in ("", whole)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("name", ["memory", "sqlite"])
def test_what_was_handed_over_completes_though_its_caller_is_gone(
    name: str, loop: type[asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def run() -> None:
        engine = make_engine(name, tmp_path)
        await engine.open()
        try:
            await cancel_many(engine)
        finally:
            await engine.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
