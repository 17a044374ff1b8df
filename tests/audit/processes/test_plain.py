"""Memories with plain methods: what the audit's threads cost is not the memory's."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running

from audit.auditing import answer, judged, recorded, small
from audit.mutations.runner import TARGET, TESTS
from stateward.audit.replicas.fleet import Fleet
from stateward.audit.replicas.process import THREADS
from stateward.audit.targets.choice import choose
from stateward.audit.targets.memory import Memory, Stopwatch
from stateward.audit.workloads import calls

MEETING = """
import threading

class Memory:
    def __init__(self, namespace):
        self.all = threading.Barrier({threads})

    def append(self, thread, messages, key):
        pass

    def load(self, thread, last):
        self.all.wait(timeout=10.0)
        return []
"""


@pytest.mark.parametrize("cores", [2, 4, 16])
async def test_as_many_calls_run_side_by_side_on_every_machine(
    cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.cpu_count = lambda: {cores}\n")
    (tmp_path / "meeting.py").write_text(MEETING.format(threads=THREADS))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fleet = Fleet(choose("meeting:Memory", str(tmp_path), "n", None))
    try:
        (replica,) = await fleet.start()
        assert await asyncio.gather(*(replica.call("load", "t") for _ in range(THREADS)))
    finally:
        await fleet.kill_all()


class Held:
    """A memory whose calls last until they are let go."""

    def __init__(self) -> None:
        self.entered, self.free = threading.Event(), threading.Event()

    async def is_entered(self) -> None:
        with ThreadPoolExecutor(1) as other:
            await asyncio.get_running_loop().run_in_executor(other, self.entered.wait, 10.0)

    def append(self, thread: str, messages: object, key: str) -> None:
        self.entered.set()
        assert self.free.wait(30.0)

    def load(self, thread: str, last: int | None) -> list[object]:
        return []


@pytest.fixture
def one_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def test_a_wait_for_a_thread_is_not_the_memorys(one_thread: ThreadPoolExecutor) -> None:
    asyncio.get_running_loop().set_default_executor(one_thread)
    held = Held()
    memory = Memory(held)
    first = asyncio.create_task(memory.append("t", [], "k"))
    await held.is_entered()

    async def timed() -> Stopwatch:
        with Stopwatch() as watch:
            await memory.load("t")
        return watch

    second = asyncio.create_task(timed())
    _, waiting = await asyncio.wait([second], timeout=0.5)
    assert waiting
    held.free.set()
    await first
    assert (await second).seconds < 0.4


async def test_a_call_that_never_got_a_thread_was_not_asked(
    one_thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "HUNG", 0.3)
    asyncio.get_running_loop().set_default_executor(one_thread)
    held = Held()
    memory = Memory(held)
    hanging = asyncio.create_task(calls.append(memory, "t", "1", [], 0.0))
    await held.is_entered()
    entries = await calls.limited(hanging, calls.read(memory, "t", 0, 0.0))
    held.free.set()
    assert [each["outcome"] for each in entries] == ["hung", calls.UNASKED]
    report = calls.call_report(entries, [])
    assert (report["hung"], report["tried"]) == (1, [])


def found_sound(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{':'.join(sys.path)}")
    faults = ("freeze", "refuse")
    record = recorded(small(TARGET, "outage", url=f"{url}?plain=1", faults=faults, recovery=20.0))
    assert record.problems == {}
    outage = answer(judged(record), "outage")
    assert outage.verdict in ("pass", "warn"), outage.summary
    assert "refused while it was down" in outage.summary
    assert record.outages is not None
    frozen = record.outages[0]
    assert frozen.fired
    assert {"read", "append", "user", "change"} <= {each.what for each in frozen.tried}


def test_a_plain_memory_on_redis_is_found_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as server:
        found_sound(server.url, monkeypatch)


def test_a_plain_memory_on_postgres_is_found_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PostgresServer().start()
    try:
        found_sound(server.url, monkeypatch)
    finally:
        server.remove()


FILES = """
from audit.processes.test_custom import FileMemory

class Mine(FileMemory):
    def __init__(self, namespace, url=None):
        super().__init__(namespace, {folder!r})
"""


def test_a_memory_of_files_meets_a_full_disk_without_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(FILES.format(folder=f"file://{tmp_path}"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{TESTS}:{':'.join(sys.path)}")
    record = recorded(small("mine:Mine", "outage"))
    assert [each.fault for each in record.outages or ()] == ["the disk is full"]
    outage = answer(judged(record), "outage")
    assert outage.verdict == "warn", outage.summary
    assert "refused while it was down" in outage.summary
