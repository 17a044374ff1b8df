"""Fixtures: stores of both colours, real children, and the tools of Prometheus."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes.children import Child

from observability.colours import Open, ok
from observability.lines import Log
from stateward import Policy
from stateward.observe.logs import JsonFormatter
from stateward.sync.testing import faults as sync_faults
from stateward.testing import faults


@pytest.fixture(params=["async", "sync"])
def open_store(request: pytest.FixtureRequest) -> Open:
    """Opens a store of either colour that fails when it is told to."""
    module = faults if request.param == "async" else sync_faults

    def open_one(url: str = "memory://", **options: Any) -> Any:
        options.setdefault("policy", Policy(read_timeout=0.3, write_timeout=0.3))
        return module.open_faulty(url, **options)  # type: ignore[attr-defined]

    return open_one


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Any]:
    opened = open_store()
    yield opened
    opened.faults.clear()
    await ok(opened.close())


@pytest.fixture(scope="session")
def prometheus_tools() -> dict[str, str]:
    """Paths of `prometheus` and `promtool`; tools/system_packages.py installs them where it may."""
    found = {name: shutil.which(name) for name in ("prometheus", "promtool")}
    return {name: path for name, path in found.items() if path is not None}


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Starts children that play a role of this folder, and ends each one by its id."""
    children: list[Child] = []

    def start_child(role: str, *args: object) -> Child:
        child = Child(str(Path(__file__).parent / "roles" / role), *args)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.end()


@pytest.fixture
def log() -> Iterator[Log]:
    kept = Log()
    handler = logging.StreamHandler(kept.stream)
    handler.setFormatter(JsonFormatter(service="agents"))
    logger = logging.getLogger("stateward")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield kept
    logger.setLevel(level)
    logger.removeHandler(handler)
