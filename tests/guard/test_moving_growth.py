"""What is copied, restored, imported or rebalanced costs what there is, not its square.

Nothing here measures time: calls of the interpreter, steps of SQLite's virtual machine and commands
that a Redis server carries out. Pages and batches are small, so that what every one of them would
do with all that there is shows at lengths that are quickly reached.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest
import redis
from servers.redis import running

from stateward.engines.registry import create_sync_engine, parse
from stateward.kinds import ERASED, THREAD
from stateward.ops import Append, Commit, Entity, Put
from stateward.transfer import rebalance, source, target
from stateward.transfer.backup import backup, copy, restore, verify
from stateward.transfer.moves import entity_writer
from stateward.transfer.moves.mover import import_from
from stateward.transfer.rebalance import Rebalancing
from stateward.world import World

ENTRIES = (100, 1_000)  # of one thread
THREADS = (40, 400)
LINEAR = 18  # times as much at ten times the length; the square would be a hundred times
ENGINES = ("memory", "sqlite", "valkey")
_numbers = count()

Counts = dict[str, int]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, size in (
        (source, "LISTED", 20),
        (source, "TOGETHER", 5),
        (source, "FIRST", 10),
        (source, "MOST", 10),
        (target, "ENTRIES", 10),
        (target, "TOGETHER", 5),
        (entity_writer, "ENTRIES", 10),
        (rebalance, "BATCH", 5),
    ):
        assert getattr(module, name) > size
        monkeypatch.setattr(module, name, size)


class Meter:
    """What is done on this thread, in every SQLite file and by one server, in a block."""

    def __init__(self, server: redis.Redis | None) -> None:
        self._server = server
        self._steps = 0
        self._lock = threading.Lock()

    @contextmanager
    def counting(self, into: Counts) -> Iterator[None]:
        calls = 0

        def note(_frame: FrameType, event: str, _argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        self._steps, commands = 0, self._carried_out()
        apsw.connection_hooks.append(self._attach)
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)
            apsw.connection_hooks.remove(self._attach)
        into["calls"] = calls
        into["steps"] = self._steps
        into["commands"] = self._carried_out() - commands

    def _attach(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._ran)

    def _ran(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def _carried_out(self) -> int:
        """Those that scripts call are commands too; the looks themselves are not counted."""
        if self._server is None:
            return 0
        stats: Any = self._server.info("commandstats")
        return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")


class Place:
    """Where empty stores of one engine come from, and a meter for what happens in them."""

    def __init__(self, engine: str, folder: Path, url: str) -> None:
        self.engine = engine
        self.folder = folder
        self._url = url
        self.meter = Meter(redis.Redis.from_url(url) if url else None)

    def new(self) -> tuple[str, str]:
        """The URL and the namespace of a store that holds nothing."""
        number = next(_numbers)
        if self.engine == "valkey":
            return self._url, f"n{number}"
        if self.engine == "sqlite":
            return f"sqlite:///{self.folder}/{number}.db?durability=relaxed", "n"
        return f"memory://growth-{number}", "n"

    def path(self, ending: str) -> str:
        return f"{self.folder}/{next(_numbers)}.{ending}"


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        url = ""
        if request.param == "valkey":
            url = stack.enter_context(
                running(tmp_path / "server", "valkey", "--appendonly", "no")
            ).url
        yield Place(request.param, tmp_path, url)


def one_thread(space: str, length: int) -> Iterator[Commit]:
    """In many appends, each with a key, a document beside it."""
    entity = Entity(space, THREAD, "t")
    yield Commit(entity, f"{space}-vars", (Put("vars", "{}"),), owner="u")
    for n in range(length // 2):
        said = Append((f'{{"n":{n}}}', f'{{"n":-{n}}}'), key=f"k{n}")
        yield Commit(entity, f"{space}-{n}", (said,))


def many_threads(space: str, length: int) -> Iterator[Commit]:
    for n in range(length):
        said = (Append((f'{{"n":{n}}}',), key="k"), Put("vars", "{}"))
        yield Commit(Entity(space, THREAD, f"t{n:05}"), f"{space}-{n}", said, owner=f"u{n % 7}")


def many_erased(space: str, length: int) -> Iterator[Commit]:
    """As many as were erased, and one thread of each who was not."""
    yield from many_threads(space, length // 2)
    for n in range(length // 2):
        erased = Put(ERASED, '{"at":1.0}')
        yield Commit(Entity(space, ERASED, f"gone{n:05}"), f"{space}-gone-{n}", (erased,))


SHAPES: dict[str, tuple[Callable[[str, int], Iterator[Commit]], tuple[int, int]]] = {
    "one thread": (one_thread, ENTRIES),
    "many threads": (many_threads, THREADS),
    "many erased": (many_erased, THREADS),
}


def fill(url: str, commits: Iterator[Commit]) -> None:
    engine: Any = create_sync_engine(parse(url), World())
    engine.open()
    for commit in commits:
        engine.execute([commit])
    engine.close()


def assert_linear(costs: list[dict[str, Counts]]) -> None:
    short, long = costs
    for name in short:
        for what, cost in short[name].items():
            assert long[name][what] <= LINEAR * cost, (name, what, cost, long[name][what])
        assert any(short[name].values()), f"{name}: nothing was counted"


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_backed_up_restored_or_copied_is_touched_a_few_times(
    shape: str, place: Place
) -> None:
    make, lengths = SHAPES[shape]
    costs: list[dict[str, Counts]] = []
    for length in lengths:
        url, space = place.new()
        fill(url, make(space, length))
        path = place.path("backup")
        into, copied = place.new(), place.new()
        found: dict[str, Counts] = {name: {} for name in ("backup", "verify", "restore", "copy")}
        with place.meter.counting(found["backup"]):
            saved = backup(url, path, namespace=space)
        with place.meter.counting(found["verify"]):
            verify(path)
        with place.meter.counting(found["restore"]):
            restored = restore(path, into[0], namespace=into[1])
        with place.meter.counting(found["copy"]):
            gone = copy(url, copied[0], namespace=space, to=copied[1])
        assert saved.entities >= (length if "many" in shape else 1)
        assert (restored.messages, gone.messages) == (saved.messages, saved.messages)
        costs.append(found)
    assert_linear(costs)


@pytest.mark.parametrize("together", [True, False], ids=["a large thread", "many threads"])
def test_what_is_imported_is_touched_a_few_times(together: bool, place: Place) -> None:
    costs: list[dict[str, Counts]] = []
    for length in ENTRIES if together else THREADS:
        path = place.path("jsonl")
        with open(path, "w") as file:
            for n in range(length):
                thread = "t" if together else f"t{n}"
                message = {"role": "user", "content": f"{n}"}
                print(json.dumps({"thread": thread, "user": "u", "message": message}), file=file)
        url, space = place.new()
        found: dict[str, Counts] = {"import": {}, "import again": {}, "import of more": {}}
        with place.meter.counting(found["import"]):
            report = import_from(f"jsonl:{path}", url, namespace=space)
        assert (report.added, report.refused) == (length, 0)
        with place.meter.counting(found["import again"]):
            assert import_from(f"jsonl:{path}", url, namespace=space).added == 0
        with open(path, "a") as file:
            for n in range(length):
                thread = "t" if together else f"t{n}"
                message = {"role": "assistant", "content": f"{n}"}
                print(json.dumps({"thread": thread, "user": "u", "message": message}), file=file)
        with place.meter.counting(found["import of more"]):
            assert import_from(f"jsonl:{path}", url, namespace=space).added == length
        costs.append(found)
    assert_linear(costs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
def test_what_is_rebalanced_is_touched_a_few_times(shape: str, place: Place) -> None:
    """All of it from one that goes to two that stay, on three volumes."""
    make, lengths = SHAPES[shape]
    costs: list[dict[str, Counts]] = []
    for length in lengths:
        urls = {name: place.new()[0] for name in ("a", "b", "c")}
        fill(urls["a"], make("n", length))
        found: dict[str, Counts] = {"rebalance": {}}
        engines: dict[str, Any] = {}
        with place.meter.counting(found["rebalance"]):
            for name, url in urls.items():
                engines[name] = create_sync_engine(parse(url), World())
                engines[name].open()
            moved = Rebalancing(engines, ("b", "c"), namespace="n", world=World()).run(0)
            for engine in engines.values():
                engine.close()
        threads = {"many threads": length, "many erased": length // 2}.get(shape, 1)
        assert moved.entities >= threads
        assert moved.undecided == []
        costs.append(found)
    assert_linear(costs)
