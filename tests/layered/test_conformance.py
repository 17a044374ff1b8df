"""A layered store keeps every promise that a store of one engine keeps."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conformance import blocking, state, suite

from stateward.engine import Engine, SyncEngine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.store import Store
from stateward.sync.engines.memory import MemoryEngine as BlockingMemory
from stateward.sync.store import Store as BlockingStore
from stateward.testing.clock import SteppableWorld
from stateward.world import World

START = 1_700_000_000.0

# What speaks to an engine itself cannot know which of the three it has to ask.
TO_THE_ENGINE = (
    *("replica(", "engine(", "meanwhile", "_in("),
    *("filled(", "kept(h", "severable(", "await swept("),
)


def of_stores(cases: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The cases that speak to stores alone."""
    return [
        (name, case)
        for name, case in cases
        if not any(word in source_of(case) for word in TO_THE_ENGINE)
    ]


def source_of(case: Any) -> str:
    """Like `inspect.getsource`, which would read the same file again for each case."""
    return sources_in(inspect.getfile(case))[case.__name__]


@cache
def sources_in(path: str) -> dict[str, str]:
    """The text of every function of a module."""
    text = Path(path).read_text("utf-8")
    lines = text.splitlines()
    return {
        node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


class Three:
    """Three stores, of which each replica has its own engines."""

    def __init__(self) -> None:
        self._models = {"threads": Model(), "users": Model(), "workflows": Model()}

    def engine(self, world: World, layer: str = "workflows") -> Engine:
        return MemoryEngine(self._models[layer], world)

    def blocking_engine(self, world: World, layer: str = "workflows") -> SyncEngine:
        return BlockingMemory(self._models[layer], world)


class LayeredHarness(state.StoreHarness):
    def __init__(self, three: Three, world: World) -> None:
        super().__init__(three.engine, world)
        self._three = three

    def store(self, **options: Any) -> Store:
        layers = {layer: self._three.engine(self.world, layer) for layer in ("threads", "users")}
        return super().store(**layers, **options)


class LayeredBlockingHarness(blocking.StoreHarness):
    def __init__(self, three: Three, world: World) -> None:
        super().__init__(three.blocking_engine, world)
        self._three = three

    def store(self, **options: Any) -> BlockingStore:
        engine = self._three.blocking_engine
        layers = {layer: engine(self.world, layer) for layer in ("threads", "users")}
        return super().store(**layers, **options)


@pytest.mark.parametrize("case", suite.params(of_stores(state.CASES), cell=(0, 2)))
async def test_async(case: state.Case) -> None:
    async with LayeredHarness(Three(), SteppableWorld(START)) as harness:
        await case(harness)


@pytest.mark.parametrize("case", suite.params(of_stores(blocking.CASES), cell=(1, 2)))
def test_sync(case: blocking.Case) -> None:
    with LayeredBlockingHarness(Three(), SteppableWorld(START)) as harness:
        case(harness)


def test_most_cases_of_stores_are_among_them() -> None:
    assert len(of_stores(state.CASES)) == len(of_stores(blocking.CASES)) > 150
