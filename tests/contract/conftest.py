"""The engines that a walk-through runs on: the reference model, and one that is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from contract.walk import NOON, Walk
from stateward.engine import Engine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.sqlite.engine import SqliteEngine
from stateward.engines.sqlite.file import File
from stateward.testing.clock import SteppableWorld


@pytest.fixture(params=["memory", "sqlite"])
async def walk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Walk]:
    world = SteppableWorld(start=NOON)
    engines: list[Engine]
    if request.param == "memory":
        model = Model()
        engines = [MemoryEngine(model, world) for _ in "ab"]

        def texts() -> list[str]:
            cells = model._cells.values()
            bodies = [entry.body for cell in cells for entry in cell.entries.values()]
            return bodies + [value.json for cell in cells for value in cell.documents.values()]
    else:
        path = str(tmp_path / "walk.db")
        engines = [SqliteEngine(File(path, relaxed=True, migrate=True, world=world)) for _ in "ab"]

        def texts() -> list[str]:
            return list(rows_of(path))

    for engine in engines:
        await engine.open()
    yield Walk(*engines, world, texts)
    for engine in engines:
        await engine.close()


def rows_of(path: str) -> Iterator[str]:
    """Every body and value in the file, of whatever life."""
    with closing(apsw.Connection(path)) as connection:
        query = "SELECT body FROM log WHERE body IS NOT NULL UNION ALL SELECT value FROM documents"
        yield from (stored for (stored,) in connection.execute(query).fetchall())
