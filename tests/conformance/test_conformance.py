"""Every case of the shipped suite on the engines without a server, in both colours."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvloop

from conformance import blocking, state, suite
from stateward.engine import Engine, SyncEngine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.sqlite.engine import SqliteEngine
from stateward.engines.sqlite.file import File
from stateward.sync.engines.memory import MemoryEngine as BlockingMemory
from stateward.sync.engines.sqlite.engine import SqliteEngine as BlockingSqlite
from stateward.testing import conformance as contract
from stateward.testing.clock import SteppableWorld
from stateward.world import World

START = 1_700_000_000.0  # the clock stands still between a case's own steps

Loop = Callable[[], asyncio.AbstractEventLoop]


class Memory:
    """Replicas over one model."""

    def __init__(self, folder: Path) -> None:
        self._model = Model()

    def engine(self, world: World) -> Engine:
        return MemoryEngine(self._model, world)

    def blocking_engine(self, world: World) -> SyncEngine:
        return BlockingMemory(self._model, world)


class Sqlite:
    """Replicas over one file."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "store.db")

    def engine(self, world: World) -> Engine:
        return SqliteEngine(self._file(world))

    def blocking_engine(self, world: World) -> SyncEngine:
        return BlockingSqlite(self._file(world))

    def _file(self, world: World) -> File:
        return File(self._path, relaxed=False, migrate=True, world=world)


ENGINES = {"memory": Memory, "sqlite": Sqlite}
LOOPS: dict[str, Loop] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


# Cases of the contract are about an engine, so they run on each, under each kind of loop and in
# either colour. (uvloop only with SQLite, which hands over between threads and the loop; memory
# waits for nothing.) Cases of the state layer are about what is above the engine, so each runs
# once per engine, async on one and blocking on the other, and meets one kind of loop. `make soak`
# runs the other cells.
SECOND = [pytest.mark.verify]
LATE = [pytest.mark.soak]


def loop_of(name: str) -> str:
    """Return the loop under which a case of the state layer runs."""
    return "uvloop" if zlib.crc32(name.encode()) % 2 else "asyncio"


def async_marks(name: str, engine: str, loop: str) -> list[pytest.MarkDecorator]:
    if name in suite.OF_ENGINES:
        return [] if loop == "asyncio" else SECOND if engine == "sqlite" else LATE
    return [] if engine == "memory" and loop == loop_of(name) else LATE


def blocking_marks(name: str, engine: str) -> list[pytest.MarkDecorator]:
    if name in suite.OF_ENGINES:
        return [] if engine == "sqlite" else SECOND
    # A sweep is about the state layer alone, and it opens hundreds of stores.
    return [] if engine == "sqlite" and name not in suite.SWEEPS else LATE


@pytest.fixture
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory | Sqlite]:
    """One store; after the case nothing of it is still running or open."""
    yield ENGINES[request.param](tmp_path)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("stateward")]
    assert open_files(tmp_path) == []


def open_files(folder: Path) -> list[str]:
    """What this process holds open below a folder, where the system can say."""
    links = Path("/proc/self/fd")
    if not links.exists():
        return []
    opened = []
    for link in links.iterdir():
        try:
            opened.append(os.readlink(link))
        except FileNotFoundError:
            continue  # the handle of this very listing
    return [path for path in opened if path.startswith(str(folder))]


@pytest.mark.parametrize(
    ("engines", "case", "loop"),
    suite.selectable(
        pytest.param(
            engine, case, loop, id=f"{engine}-{name}-{loop}", marks=async_marks(name, engine, loop)
        )
        for name, case in suite.ASYNC
        for engine in ENGINES
        for loop in LOOPS
    ),
    indirect=["engines"],
)
def test_async(engines: Memory | Sqlite, loop: str, case: suite.AsyncCase) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(case(engines.engine, SteppableWorld(START)))


@pytest.mark.parametrize(
    ("engines", "case"),
    suite.selectable(
        pytest.param(engine, case, id=f"{engine}-{name}", marks=blocking_marks(name, engine))
        for name, case in suite.BLOCKING
        for engine in ENGINES
    ),
    indirect=["engines"],
)
def test_sync(engines: Memory | Sqlite, case: suite.BlockingCase) -> None:
    case(engines.blocking_engine, SteppableWorld(START))


def test_both_colours_have_the_same_cases() -> None:
    names = [name for name, _ in suite.ASYNC]
    assert names == [name for name, _ in suite.BLOCKING]
    assert len(names) == len(set(names)) > 400
    assert [name for name, _ in blocking.CASES] == [name for name, _ in state.CASES]


def test_every_subject_of_the_contract_is_in_the_suite() -> None:
    """A file that is not imported registers nothing, and nobody would notice."""
    folder = Path(contract.__file__).parent
    files = {path.stem for path in folder.glob("*.py") if "\n@case\n" in path.read_text("utf-8")}
    assert {name.partition(".")[0] for name, _ in contract.CASES} == files
    assert len(contract.CASES) > 150


class Slow(World):
    """Whose clocks run at a quarter of the real speed: what a busy machine takes weighs less."""

    SPEED = 0.25

    def __init__(self) -> None:
        self._began = time.time(), time.monotonic()

    def now(self) -> float:
        began = self._began[0]
        return began + self.SPEED * (time.time() - began)

    def monotonic(self) -> float:
        began = self._began[1]
        return began + self.SPEED * (time.monotonic() - began)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.SPEED)

    def block(self, seconds: float) -> None:
        time.sleep(seconds / self.SPEED)


def test_cases_that_need_no_clock_hold_on_one_that_runs() -> None:
    """As engines whose clock is a server's run them: really waiting, here many at once."""

    def run(name: str, case: suite.BlockingCase) -> str | None:
        try:
            case(Memory(Path()).blocking_engine, Slow())
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        return None

    # Sweeps wait for nothing, and would hold up those that do.
    others = suite.NEED_CLOCK | suite.SWEEPS
    chosen = [(name, case) for name, case in suite.BLOCKING if name not in others]
    with ThreadPoolExecutor(32) as pool:
        failures = list(pool.map(lambda named: run(*named), chosen))
    assert len(failures) > 200
    # In the crowd one may be late for what it waited for: alone it is not.
    late = [named for named, failure in zip(chosen, failures, strict=True) if failure]
    assert [failure for failure in (run(*named) for named in late) if failure] == []
