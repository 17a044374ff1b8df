"""Files and URLs that cannot be a store: the right error, what to do about it, nothing changed."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import stateward
import stateward.sync

Attempt = Callable[..., None]

TURN = [{"part": 1}, {"part": 2}]
QUICK = stateward.sync.Policy(read_timeout=0.02, write_timeout=0.02)  # damage does not go away


def attempt_sync(url: str | None) -> None:
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"n": 1})


def attempt_async(url: str | None) -> None:
    async def put() -> None:
        async with stateward.open(url) as store:
            await store.user("u-1").put({"n": 1})

    asyncio.run(put())


@pytest.fixture(params=[attempt_async, attempt_sync], ids=["async", "sync"])
def attempt(request: pytest.FixtureRequest) -> Attempt:
    """Open a store and write to it."""
    chosen: Attempt = request.param
    return chosen


def fill(url: str, turns: int = 60) -> None:
    """A store with something in it, closed, so that all of it is in the one file."""
    with stateward.sync.open(url) as store:
        for number in range(turns):
            store.thread(f"t-{number % 6}", user="u-1").append(*TURN)
        for number in range(20):
            store.user("u-1").put({"n": number, "text": "y" * 300}, name=f"d-{number}")


def everything_in(path: Path) -> dict[str, bytes]:
    """All files of a store's folder, byte by byte."""
    return {entry.name: entry.read_bytes() for entry in path.parent.iterdir() if entry.is_file()}


# --- what is no store -------------------------------------------------------------------


def test_a_missing_folder_is_named(attempt: Attempt, tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(stateward.InvalidInput, match="does not exist; create it") as caught:
        attempt(f"sqlite:///{folder}/agents.db")
    assert str(folder) in str(caught.value)
    assert not folder.exists()


def test_a_path_that_is_a_folder_is_refused(attempt: Attempt, path: Path, url: str) -> None:
    path.mkdir()
    with pytest.raises(stateward.StoreUnavailable, match="cannot be opened") as caught:
        attempt(url)
    assert str(path) in str(caught.value)
    assert caught.value.applied == "no"
    assert isinstance(caught.value.__cause__, apsw.CantOpenError)
    assert list(path.iterdir()) == []


def test_random_bytes_are_refused_and_left_alone(attempt: Attempt, path: Path, url: str) -> None:
    path.write_bytes(random.Random(3).randbytes(20_000))
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match=r"damaged.*backup") as caught:
        attempt(url)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value.__cause__, apsw.NotADBError)
    assert everything_in(path) == before


def test_an_overwritten_header_is_refused_and_left_alone(
    attempt: Attempt, path: Path, url: str
) -> None:
    fill(url)
    with path.open("r+b") as file:
        file.write(b"this was a database once")
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match=r"damaged.*backup") as caught:
        attempt(url)
    assert isinstance(caught.value.__cause__, apsw.NotADBError)
    assert everything_in(path) == before


def test_another_programs_database_is_refused_and_left_alone(
    attempt: Attempt, path: Path, url: str
) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, total REAL)")
    connection.execute("INSERT INTO invoices (total) VALUES (12.5)")
    connection.close()
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match=r"something else.*file of its own") as caught:
        attempt(url)
    assert str(path) in str(caught.value)
    assert everything_in(path) == before


def test_an_empty_database_of_another_program_is_refused_and_left_alone(
    attempt: Attempt, path: Path, url: str
) -> None:
    """It holds no table yet, but somebody has marked it as theirs."""
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", 0x0BADCAFE)
    connection.pragma("user_version", 7)
    connection.close()
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match="file of its own"):
        attempt(url)
    assert everything_in(path) == before


# --- stores that cannot be used ---------------------------------------------------------


def edit(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement).fetchall()
    connection.close()


def test_a_store_of_a_newer_release_asks_for_an_upgrade(
    attempt: Attempt, path: Path, url: str
) -> None:
    fill(url)
    edit(path, "UPDATE stateward SET value = '99.0.0' WHERE name = 'oldest_release'")
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match=r"99\.0\.0.*[Uu]pgrade.*pip install") as caught:
        attempt(url)
    assert str(path) in str(caught.value)
    assert stateward.__version__ in str(caught.value)
    assert everything_in(path) == before


def test_a_newer_schema_that_still_allows_this_release_works(
    attempt: Attempt, path: Path, url: str
) -> None:
    fill(url)
    edit(path, "PRAGMA user_version = 9000")
    attempt(url)
    with stateward.sync.open(url) as store:
        assert store.describe().schema == 9000
        assert store.user("u-1").get().value == {"n": 1}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM stateward",
        "UPDATE stateward SET value = 'not a version'",
        "DROP TABLE stateward",
    ],
)
def test_a_store_that_does_not_say_who_may_use_it_is_refused(
    attempt: Attempt, path: Path, url: str, damage: str
) -> None:
    fill(url)
    edit(path, damage)
    before = everything_in(path)
    with pytest.raises(stateward.SchemaError, match=r"backup|[Uu]pgrade"):
        attempt(url)
    assert everything_in(path) == before


@pytest.mark.parametrize("exists", [True, False], ids=["empty file", "no file"])
def test_migrate_off_refuses_what_needs_a_migration(
    attempt: Attempt, path: Path, url: str, exists: bool
) -> None:
    if exists:
        path.touch()
    with pytest.raises(
        stateward.SchemaError, match=r"0001.*migrate=off.*stateward migrate"
    ) as caught:
        attempt(f"{url}?migrate=off")
    assert str(path) in str(caught.value)
    assert everything_in(path) == ({path.name: b""} if exists else {})
    attempt(url)  # migrates
    attempt(f"{url}?migrate=off")


# --- damage inside ----------------------------------------------------------------------


def use_all(url: str) -> tuple[int, list[BaseException]]:
    """Read and write all there is; how many calls worked, and what the others raised."""
    worked, errors = 0, []

    def call(work: Callable[[], Any]) -> None:
        nonlocal worked
        try:
            work()
            worked += 1
        except Exception as error:
            errors.append(error)

    store = stateward.sync.open(url, policy=QUICK)
    try:
        for number in range(6):
            thread = store.thread(f"t-{number}", user="u-1")
            call(thread.load)
            call(lambda t=thread: list(t.changes(follow=False)))
            call(lambda t=thread: t.append(*TURN))
        for number in range(20):
            call(lambda n=number: store.user("u-1").get(name=f"d-{n}"))
        call(lambda: store.user("u-1").update(lambda value: {"n": 1}))
        call(lambda: list(store.user("u-1").list()))
        call(lambda: list(store.threads(user="u-1")))
        call(lambda: store.context(user="u-1", thread="t-0"))
        call(store.sweep)
    finally:
        store.close()
    return worked, errors


def check_damage(errors: list[BaseException], path: Path, where: str) -> None:
    """Only errors of ours; those of the driver name the file and what to do."""
    for error in errors:
        assert isinstance(error, stateward.StatewardError), f"{where}: {error!r}"
        if isinstance(error, stateward.SchemaError):
            assert "backup" in str(error), f"{where}: {error}"
        if isinstance(error.__cause__, apsw.Error):
            assert str(path) in str(error), f"{where}: {error}"


def test_a_truncated_file_is_refused_wherever_it_was_cut(path: Path, url: str) -> None:
    fill(url)
    whole = path.read_bytes()
    raised = 0
    for cut in range(100, len(whole), 2_500):
        path.write_bytes(whole[:cut])
        _, errors = use_all(url)
        check_damage(errors, path, f"cut at {cut}")
        raised += bool(errors)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert raised > 0, "no cut was ever noticed: this proves nothing"


def test_garbage_in_any_page_raises_only_errors_of_stateward(path: Path, url: str) -> None:
    fill(url)
    whole = path.read_bytes()
    page = 4096
    chance = random.Random(17)
    raised = worked = 0
    for number in range(len(whole) // page):
        for size in (8, 1_000):
            at = number * page + chance.randrange(100, page - size)
            broken = bytearray(whole)
            broken[at : at + size] = chance.randbytes(size)
            path.write_bytes(broken)
            fine, errors = use_all(url)
            check_damage(errors, path, f"{size} bytes at {at}")
            raised += bool(errors)
            worked += fine
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert raised > 0, "no damage was ever noticed: this proves nothing"
    assert worked > 0


def test_a_stored_message_that_is_no_json_says_which_file_is_damaged(path: Path, url: str) -> None:
    fill(url)
    edit(path, "UPDATE log SET body = '{\"part\": ' WHERE seq = 1")
    with (
        stateward.sync.open(url) as store,
        pytest.raises(stateward.StatewardError, match=r"damaged|not JSON|no JSON"),
    ):
        store.thread("t-0", user="u-1").load()


# --- URLs -------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_with_the_one_that_was_meant(
    attempt: Attempt, path: Path, url: str
) -> None:
    with pytest.raises(stateward.InvalidInput, match=r"did you mean 'durability'\?.*migrate"):
        attempt(f"{url}?durabilty=relaxed")
    with pytest.raises(stateward.InvalidInput, match=r"did you mean 'relaxed'\?.*full"):
        attempt(f"{url}?durability=relaxd")
    with pytest.raises(stateward.InvalidInput, match="on, off"):
        attempt(f"{url}?migrate=perhaps")
    with pytest.raises(stateward.InvalidInput, match="twice"):
        attempt(f"{url}?migrate=on&migrate=off")
    assert not path.exists()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("", "no store was named.*STATEWARD_URL"),
        ("agents.db", "not a store's URL.*sqlite:///agents.db"),
        ("sqlit:///agents.db", "did you mean 'sqlite'"),
        ("sqlite://", "names no file.*sqlite:///agents.db"),
        ("sqlite:///", "names no file"),
        ("sqlite://agents.db", "names no file.*sqlite:///agents.db"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///a%00b.db", "names no file"),
    ],
)
def test_a_wrong_url_is_refused_before_anything_is_opened(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    with pytest.raises(stateward.InvalidInput, match=says):
        attempt(wrong)
    assert os.listdir(tmp_path) == []


def test_without_a_url_the_environment_names_the_store(
    attempt: Attempt, url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    with pytest.raises(stateward.InvalidInput, match=r"pass its URL.*set STATEWARD_URL"):
        attempt(None)
    monkeypatch.setenv("STATEWARD_URL", url)
    attempt(None)
    with stateward.sync.open(url) as store:
        assert store.user("u-1").get().value == {"n": 1}
