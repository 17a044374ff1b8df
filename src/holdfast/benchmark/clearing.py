"""Removing what a benchmark wrote."""

from __future__ import annotations

import os

from holdfast.engine import Engine
from holdfast.ops import Commit, Drop, List, Listed
from holdfast.registry import create_engine, parse
from holdfast.world import World


async def drop_together(url: str, namespace: str) -> int:
    """Remove all of a namespace, a page in one round trip: thousands of tasks were run."""
    world = World()
    engine: Engine = create_engine(parse(url), world)
    await engine.open()
    try:
        after: str | None = None
        count, size = 0, engine.capabilities.batch
        while True:
            listed = (await engine.execute((List(namespace, limit=size, after=after),)))[0]
            assert isinstance(listed, Listed)
            drops = [Commit(each.entity, world.new_id(), (Drop(),)) for each in listed.entities]
            if drops:
                await engine.execute(drops)
            count, after = count + len(drops), listed.next
            if after is None:
                return count
    finally:
        await engine.close()


def remove_file(path: str) -> None:
    """A file that nobody had before, with what belongs to it."""
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{path}{end}"):
            os.remove(f"{path}{end}")
