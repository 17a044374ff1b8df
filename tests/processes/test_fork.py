"""A store made before a fork, as `gunicorn --preload` makes it, works after it or says why not."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import apsw
import pytest

import stateward.sync
from processes.conftest import Start
from stateward.world import World

COLOURS = ["async", "sync"]
TURNS = [{"turn": number, "part": part} for number in range(20) for part in (1, 2)]


def check(path: Path, *whose: str) -> None:
    """All that these have written is there, and the file is sound."""
    with stateward.sync.open(f"sqlite:///{path}") as store:
        for who in whose:
            assert store.thread(who, user="u-1").load().messages == TURNS, who
        assert store.user("u-1").get().value == {"n": 20 * len(whose)}
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_store_made_before_the_fork_works_in_every_child_and_in_the_parent(
    start: Start, url: str, path: Path, colour: str
) -> None:
    start("preload", url, colour, "unused").finish()
    check(path, "child-0", "child-1", "child-2", "parent")


@pytest.mark.parametrize("colour", COLOURS)
def test_a_store_used_before_the_fork_refuses_in_the_children_and_goes_on_in_the_parent(
    start: Start, url: str, path: Path, colour: str
) -> None:
    lines = start("preload", url, colour, "used").finish()
    assert sorted(lines) == ["closed", "refused", "refused"]
    check(path, "before", "parent", "after")


@pytest.mark.parametrize("colour", COLOURS)
def test_what_a_child_does_gives_no_lock_of_its_parent_away(
    start: Start, url: str, colour: str
) -> None:
    lines = start("preload", url, colour, "holding").finish()
    assert lines == ["refused", '{"held": true}', "closed", '{"held": true}', '{"held": false}']


@pytest.mark.parametrize("colour", COLOURS)
def test_whatever_lock_a_thread_held_at_the_fork_the_child_hangs_on_none(
    start: Start, url: str, colour: str
) -> None:
    lines = start("preload", url, colour, "locked").finish(patience=60)
    assert lines == ["refused", "closed", '{"held": true}']


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(("moment", "said"), [("busy", "refused"), ("busy-close", "closed")])
def test_forks_in_the_middle_of_writes_hang_nobody(
    start: Start, url: str, path: Path, colour: str, moment: str, said: str
) -> None:
    lines = start("preload", url, colour, moment).finish(patience=60)
    assert lines[:-1] == [said] * 8
    with stateward.sync.open(url) as store:
        for place, written in enumerate(json.loads(lines[-1])["written"]):
            messages = store.thread(f"load-{place}").load().messages
            assert messages == [{"n": number} for number in range(written)]


def test_a_child_draws_other_ops_than_its_parent() -> None:
    World().new_op()  # some are drawn ahead
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, "".join(World().new_op()[8:] for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as drawn:
        text = drawn.read()
    theirs = {text[at : at + 8] for at in range(0, 800, 8)}
    assert len(theirs) == 100
    assert theirs.isdisjoint(World().new_op()[8:] for _ in range(100))


def test_threads_that_draw_at_once_never_draw_the_same_op() -> None:
    drawn: list[list[str]] = [[] for _ in range(4)]

    def draw(mine: list[str]) -> None:
        mine.extend(World().new_op() for _ in range(5000))

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({op for mine in drawn for op in mine}) == 20_000
