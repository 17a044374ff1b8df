"""A backup made while agents write is one moment: what is in it could have been seen then."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from backup.conftest import SNAPSHOTS, NewStore
from backup.states import everything
from stateward import sync
from stateward.engine import SyncEngine
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Append, Commit, Drop, Entity, Fetch, Op, Outcome, Trim
from stateward.transfer.backup import backup, restore
from stateward.transfer.lines import Content, EntityLine, EntryLine
from stateward.transfer.source import Source
from stateward.world import World

PLACES = 30


@pytest.mark.parametrize("engine", SNAPSHOTS)
def test_a_backup_under_load_is_one_moment(
    engine: str, new_store: NewStore, tmp_path: Path
) -> None:
    """One agent writes round after round to many conversations, from the last listed to the first.

    So at any moment the rounds fall along the listing by at most one step. A backup that read them
    one after the other while they grow would find later ones ahead.
    """
    url, into = new_store(engine), new_store("memory")
    round_done, stop = threading.Semaphore(0), threading.Event()

    def write() -> None:
        with sync.open(url) as store:
            number = 0
            while not stop.is_set():
                for place in reversed(range(PLACES)):
                    store.thread(f"s-{place:02}").append({"n": number})
                number += 1
                round_done.release()

    agent = threading.Thread(target=write, daemon=True)
    agent.start()
    try:
        for number in range(5):  # however quick a backup is, it is written to before the next
            for _ in range(3):
                assert round_done.acquire(timeout=30)
            path = str(tmp_path / f"{number}.backup")
            assert backup(url, path).moment == "store"
            restore(path, into, namespace=f"{number}")
    finally:
        stop.set()
        agent.join()
    rounds_seen = set()
    for number in range(5):
        heads = [li for li in everything(into, f"{number}") if isinstance(li, EntityLine)]
        rounds = [head.version for head in heads]
        assert len(rounds) == PLACES
        assert rounds == sorted(rounds), "nothing that was written later without what came before"
        assert rounds[-1] - rounds[0] <= 1, rounds
        rounds_seen.add(rounds[-1])
    assert len(rounds_seen) > 1, "it was written to all the time"


class Interrupted:
    """An engine without snapshots, on which an agent writes between two reads of a page."""

    def __init__(self, engine: SyncEngine, writes: list[Commit]) -> None:
        self._engine = engine
        self.writes = writes

    def execute(self, ops: list[Op]) -> list[Outcome]:
        outcomes = self._engine.execute(ops)
        first = ops[0]
        if isinstance(first, Fetch) and first.log is not None and self.writes:
            self._engine.execute([self.writes.pop(0)])
        return outcomes


def test_without_snapshots_each_entity_is_consistent_in_itself() -> None:
    engine = create_sync_engine(parse("memory://"), World())
    it = Entity("n", "thread", "it")
    engine.execute([Commit(it, "op", (Append(tuple(str(n) for n in range(3000))),))])
    writes = [Commit(it, f"op {n}", (Append((f'"{n}"',)), Trim(n * 500))) for n in (1, 2, 3)]
    source = Source(Interrupted(engine, writes), "n", one_moment=False)  # type: ignore[arg-type]
    lines = list(source.lines())
    assert not writes, "it was begun again"
    wanted: list[Content] = list(Source(engine, "n", one_moment=True).lines())
    assert lines == wanted
    assert len(wanted) == 1 + 3003 - 1500


def test_what_is_deleted_while_it_is_read_is_in_no_backup() -> None:
    engine = create_sync_engine(parse("memory://"), World())
    it, other = Entity("n", "thread", "it"), Entity("n", "thread", "other")
    engine.execute([Commit(it, "op", (Append(tuple(str(n) for n in range(3000))),))])
    engine.execute([Commit(other, "op", (Append(("1",)),))])
    source = Source(Interrupted(engine, [Commit(it, "gone", (Drop(),))]), "n")  # type: ignore[arg-type]
    lines = list(source.lines())
    assert [line.id for line in lines if isinstance(line, EntityLine)] == ["other"]
    assert len(lines) == 2


def test_one_busy_entity_keeps_no_backup_from_its_end() -> None:
    """Not even if something is written to it between any two of its pages."""
    engine = create_sync_engine(parse("memory://"), World())
    it = Entity("n", "thread", "it")
    engine.execute([Commit(it, "op", (Append(tuple(str(n) for n in range(5000))),))])
    writes = [Commit(it, f"op {n}", (Append((str(n),)),)) for n in range(100)]
    source = Source(Interrupted(engine, writes), "n")  # type: ignore[arg-type]
    head, *entries = list(source.lines())
    assert isinstance(head, EntityLine)
    assert [line.seq for line in entries if isinstance(line, EntryLine)] == list(
        range(1, head.version + 1)
    )
    assert writes, "there was more to write when the reading ended"


@pytest.mark.parametrize("engine", SNAPSHOTS)
def test_a_backup_keeps_no_agent_waiting(engine: str, new_store: NewStore, tmp_path: Path) -> None:
    """Also not while it stands still in the middle."""
    url = new_store(engine)
    with sync.open(url) as store:
        for number in range(300):
            store.thread(f"s-{number:03}").append({"n": 1})
        written = 0

        def write(what: str, done: int, total: int) -> None:
            nonlocal written
            if done % 100 == 50:
                store.thread("s-299").append({"n": 2})
                written += 1

        made = backup(url, str(tmp_path / "a.backup"), progress=write)
        assert written > 4
        assert made.messages == 300
        assert store.thread("s-299").load().version == 1 + written
