"""The cases of coordination on every engine that comes with Holdfast, in every colour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import uvloop

SUBJECTS = ("locks", "tasks", "steps", "workflows", "signals", "work", "journals")
FOLDERS = ("holdfast.testing.conformance", "holdfast.sync.testing.conformance")
pytest.register_assert_rewrite(*FOLDERS)

from holdfast.engines.memory.engine import MemoryEngine  # noqa: E402
from holdfast.engines.memory.model import Model  # noqa: E402
from holdfast.engines.sqlite.engine import SqliteEngine  # noqa: E402
from holdfast.engines.sqlite.engine_sync import SqliteEngine as BlockingSqlite  # noqa: E402
from holdfast.engines.sqlite.file import File  # noqa: E402
from holdfast.sync.engines.memory import MemoryEngine as BlockingMemory  # noqa: E402
from holdfast.sync.testing.conformance.cases import CASES as BLOCKING_CASES  # noqa: E402
from holdfast.sync.testing.conformance.harness import Harness as BlockingHarness  # noqa: E402
from holdfast.testing.clock import SteppableWorld  # noqa: E402
from holdfast.testing.conformance.cases import CASES  # noqa: E402
from holdfast.testing.conformance.harness import Harness  # noqa: E402
from holdfast.world import World  # noqa: E402

START = 1_700_000_000.0  # the clock stands still between a case's own steps
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

for name in [f"{folder}.{subject}" for folder in FOLDERS for subject in SUBJECTS]:
    import_module(name)


def ours(cases: list[tuple[str, Any]]) -> list[Any]:
    return [pytest.param(run, id=name) for name, run in cases if name.partition(".")[0] in SUBJECTS]


Make = Callable[[Any, Any], Callable[[World], Any]]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes replicas over one store; after the case nothing of it is still running."""
    model, path = Model(), str(tmp_path / "store.db")

    def of_colour(memory: Any, sqlite: Any) -> Callable[[World], Any]:
        if request.param == "memory":
            return lambda world: memory(model, world)
        return lambda world: sqlite(File(path, relaxed=False, migrate=True, world=world))

    yield of_colour
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("holdfast")]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("case", ours(CASES))
def test_async(make: Make, loop: str, case: Any) -> None:
    problems: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: problems.append(what))
        engines = make(MemoryEngine, SqliteEngine)
        async with Harness(engines, SteppableWorld(START)) as harness:
            await case(harness)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
    assert not problems


@pytest.mark.parametrize("case", ours(BLOCKING_CASES))
def test_sync(make: Make, case: Any) -> None:
    engines = make(BlockingMemory, BlockingSqlite)
    with BlockingHarness(engines, SteppableWorld(START)) as harness:
        case(harness)
