"""A file that is removed, renamed or replaced under a running process: nothing goes nowhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import stateward
import stateward.sync
from stateward import StoreUnavailable

QUICK = stateward.Policy(read_timeout=0.3, write_timeout=0.3, threads="raise", breaker_seconds=0.01)
ENDS = ("", "-wal", "-shm")


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def texts(window: stateward.Window) -> list[str]:
    return [message["content"] for message in window.messages]


def move(path: Path, folder: Path) -> None:
    for end in ENDS:
        if os.path.exists(f"{path}{end}"):
            os.rename(f"{path}{end}", folder / f"{path.name}{end}")


def away(path: Path) -> Path:
    folder = path.parent / "away"
    folder.mkdir()
    move(path, folder)
    return folder


async def test_a_file_that_is_gone_takes_and_shows_nothing_until_it_is_back(path: Path) -> None:
    url = f"sqlite:///{path}"
    async with stateward.open(url, spill=False, policy=QUICK) as store:
        thread = store.thread("t")
        await thread.append(say("one"))
        folder = away(path)
        for call in (thread.append(say("two")), thread.load(), store.user("u").put({})):
            with pytest.raises(StoreUnavailable, match=r"removed, renamed or replaced|not asked"):
                await call
        assert not (await store.health()).ok
        assert os.listdir(path.parent) == ["away"], "nobody makes a new one"
        move(folder / path.name, path.parent)
        await answers(store)
        await thread.append(say("three"))
    with stateward.sync.open(url) as other:
        stored = texts(other.thread("t").load())
    assert [text for text in stored if text != "two"] == ["one", "three"]


async def answers(store: stateward.Store) -> None:
    for _ in range(3000):
        try:
            await store.thread("probe").load()
        except StoreUnavailable:
            continue
        return
    raise AssertionError("the store does not answer again")


def test_the_same_for_blocking_callers(path: Path) -> None:
    url = f"sqlite:///{path}"
    with stateward.sync.open(url, spill=False, policy=QUICK) as store:
        thread = store.thread("t")
        thread.append(say("one"))
        away(path)
        for call in (lambda: thread.append(say("two")), thread.load):
            with pytest.raises(StoreUnavailable, match="removed, renamed or replaced"):
                call()
        assert not store.health().ok
        assert not path.exists()


@pytest.mark.parametrize("first", ["append", "load"])
async def test_after_a_file_was_replaced_all_goes_to_the_new_one(path: Path, first: str) -> None:
    url = f"sqlite:///{path}"
    with stateward.sync.open(url) as before:
        before.thread("t").append(say("backed up"))
    shutil.copy(path, backup := path.parent / "backup.db")
    async with stateward.open(url, spill=False) as store:
        thread = store.thread("t")
        await thread.append(say("lost"))
        away(path)
        os.rename(backup, path)
        if first == "append":
            assert (await thread.append(say("new"))).status == "stored"
        assert "lost" not in texts(await thread.load())
        if first == "load":
            assert (await thread.append(say("new"))).status == "stored"
        assert texts(await thread.load()) == ["backed up", "new"]
    with stateward.sync.open(url) as other:
        assert texts(other.thread("t").load()) == ["backed up", "new"]


def test_after_a_file_was_replaced_blocking_callers_see_the_new_one(path: Path) -> None:
    url = f"sqlite:///{path}"
    with stateward.sync.open(url) as before:
        before.thread("t").append(say("backed up"))
    shutil.copy(path, backup := path.parent / "backup.db")
    with stateward.sync.open(url, spill=False) as store:
        thread = store.thread("t")
        thread.append(say("lost"))
        away(path)
        os.rename(backup, path)
        assert texts(thread.load()) == ["backed up"]
        assert thread.append(say("new")).status == "stored"
        assert texts(thread.load()) == ["backed up", "new"]


def test_a_relative_path_stays_what_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with stateward.sync.open(f"sqlite:///{path.name}", spill=False, policy=QUICK) as store:
        store.thread("t").append(say("one"))
        monkeypatch.chdir(path.parent.parent)
        store.thread("t").append(say("two"))
        assert texts(store.thread("t").load()) == ["one", "two"]


def test_a_link_that_is_turned_to_another_file_is_followed(path: Path) -> None:
    for name in ("old", "new"):
        with stateward.sync.open(f"sqlite:///{path.parent / name}.db") as store:
            store.thread("t").append(say(name))
    path.symlink_to(path.parent / "old.db")
    with stateward.sync.open(f"sqlite:///{path}", spill=False) as store:
        thread = store.thread("t")
        thread.append(say("one"))
        path.unlink()
        path.symlink_to(path.parent / "new.db")
        assert texts(thread.load()) == ["new"]
        assert thread.append(say("two")).status == "stored"
        assert texts(thread.load()) == ["new", "two"]
