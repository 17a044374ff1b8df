"""A copy that is kept up to date: the same in the end, whatever was written meanwhile."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from servers.redis import running

from backup.conftest import NewStore
from backup.states import everything, fill
from stateward import sync
from stateward.errors import InvalidInput, StateConflictError
from stateward.transfer.backup import backup
from stateward.transfer.follow import FollowReport, follow
from stateward.transfer.lines import Content, EntityLine

PAIRS = (("sqlite", "sqlite"), ("valkey", "postgres"), ("postgres", "sqlite"))


def seen(url: str) -> list[Content]:
    """All there is, but for when what came back was deleted: the copy did that a moment later."""
    lines = everything(url)
    return [replace(line, dropped=0.0) if isinstance(line, EntityLine) else line for line in lines]


def write(url: str, seed: int, rounds: int) -> None:
    """What agents do: append, change documents, delete, erase."""
    draw = random.Random(seed)
    with sync.open(url, spill=False) as store:
        for number in range(rounds):
            id = f"t-{draw.randrange(12)}"
            what = draw.random()
            if what < 0.7:
                store.thread(id).append({"n": number}, {"by": seed})
            elif what < 0.8:
                store.thread(id).delete()
            elif what < 0.95:
                store.user(f"u-{draw.randrange(4)}").put({"n": number, "by": seed})
            else:
                store.thread(f"of-{seed}-{number}", user=f"u-{draw.randrange(4)}").append({"n": 1})
        store.user(f"u-{seed}").erase()


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_followed_copy_is_the_same_in_the_end(new_store: NewStore, one: str, other: str) -> None:
    source, target = new_store(one), new_store(other)
    fill(source)
    writers = [threading.Thread(target=write, args=(source, seed, 60)) for seed in range(2)]
    looks = 0
    reports: list[FollowReport] = []

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            for writer in writers:
                writer.start()
        return looks > 200 or (looks > 2 and not any(writer.is_alive() for writer in writers))

    report = follow(source, target, compare=1.0, stopped=stopped, progress=reports.append)
    for writer in writers:
        writer.join(60)
    assert report.behind == 0
    assert report.brought > 0
    assert report.compared >= 1
    assert any(said.cursor for said in reports)
    with pytest.raises(StateConflictError, match="not finished"):
        backup(target, "no.backup")
    write(source, 7, 20)
    finished = follow(source, target, after=report.cursor, finish=True)
    assert finished.removed + finished.brought > 0
    assert seen(target) == seen(source)


def test_a_copy_that_is_in_use_is_not_overwritten(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    write(source, 1, 20)
    report = follow(source, target, finish=True)
    before = seen(target)
    with pytest.raises(StateConflictError, match="not empty"):
        follow(source, target, after=report.cursor, finish=True)
    assert seen(target) == before
    with pytest.raises(InvalidInput, match="the same namespace"):
        follow(source, source)
    with pytest.raises(InvalidInput, match="not a cursor"):
        follow(source, target, after="nonsense")


def test_a_store_that_fails_is_waited_for(new_store: NewStore, tmp_path: Path) -> None:
    with running(tmp_path / "valkey-hangs", "valkey", "--appendonly", "no") as server:
        source, target = server.url, new_store("sqlite")
        write(source, 1, 20)
        problems: list[str] = []
        looks = 0

        def stopped() -> bool:
            nonlocal looks
            looks += 1
            if looks == 2:
                server.pause()
            return bool(problems) and looks > 3

        def progress(report: FollowReport) -> None:
            if report.problem is not None:
                problems.append(report.problem)
                if len(problems) == 1:
                    server.resume()
                    write(source, 2, 20)

        report = follow(f"{source}?timeout=0.5", target, stopped=stopped, progress=progress)
        assert problems
        assert report.problem is None
        follow(f"{source}?timeout=0.5", target, finish=True)
        assert seen(target) == seen(source)


def test_the_command_says_how_far_behind_it_is_and_where_to_go_on(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    write(source, 1, 40)
    words = [sys.executable, "-m", "stateward", "copy", source, target, "--follow", "--json"]
    cursor: str | None = None
    for number in (signal.SIGINT, signal.SIGTERM):
        more = [] if cursor is None else ["--after", cursor]
        with subprocess.Popen([*words, *more], stdout=subprocess.PIPE, text=True) as command:
            try:
                assert command.stdout is not None
                said: dict[str, Any] = {"cursor": None, "behind": 1}
                while said["cursor"] is None or said["behind"]:
                    said = json.loads(command.stdout.readline())
                write(source, 2 + number, 20)
                command.send_signal(number)
                rest = command.stdout.read().splitlines()
                assert command.wait(60) == 0
            finally:
                command.kill()
        last = json.loads(rest[-1])
        assert (last["behind"], last["seconds"], last["problem"]) == (0, 0.0, None)
        cursor = last["cursor"]
    assert cursor is not None
    ended = subprocess.run(
        [*words[:-1], "--finish", "--after", cursor], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "finished: the target is ready for use" in ended.stdout
    assert seen(target) == seen(source)
