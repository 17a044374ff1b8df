"""The schema of the file: as documented, made once, and changed under running replicas."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

import stateward.sync
from processes.conftest import Start
from stateward.engines.sqlite import schema
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.schema import APPLICATION_ID, migrations
from stateward.world import World

LATEST = int(migrations()[-1][0][:4])


def store_file(path: Path) -> File:
    return File(str(path), relaxed=False, migrate=True, world=World())


@contextmanager
def connected(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def schema_of(path: Path) -> dict[tuple[str, str], tuple[str, str | None]]:
    """What the file itself says of its schema, without comments and spacing."""
    with connected(path) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): (table, None if sql is None else plain(sql))
        for kind, name, table, sql in rows
    }


def plain(sql: str) -> str:
    without_comments = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    return re.sub(r" ([,)])", r"\1", " ".join(without_comments.split()))


# --- the schema -------------------------------------------------------------------------


def test_the_schema_equals_all_migrations_applied_in_order(tmp_path: Path) -> None:
    migrated, documented = tmp_path / "migrated.db", tmp_path / "documented.db"
    store_file(migrated).open()
    schema = files("stateward.engines.sqlite").joinpath("schema.sql").read_text(encoding="utf-8")
    with connected(documented) as connection:
        connection.execute(schema).fetchall()
    assert schema_of(migrated) == schema_of(documented)
    assert {("table", "entities"), ("table", "log"), ("view", "threads")} <= set(
        schema_of(migrated)
    )


def test_a_migrated_file_says_what_it_is_and_who_may_use_it(path: Path, url: str) -> None:
    with stateward.sync.open(url) as store:
        assert store.describe().schema == LATEST
    with connected(path) as connection:
        assert connection.pragma("user_version") == LATEST
        assert connection.pragma("application_id") == APPLICATION_ID
        assert connection.pragma("journal_mode") == "wal"
        rows = connection.execute("SELECT name, value FROM stateward").fetchall()
    oldest = migrations()[-1][1].splitlines()[0].rsplit(":", 1)[1].strip()
    assert rows == [("oldest_release", oldest)]


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [int(name[:4]) for name, _ in migrations()]
    assert numbers == list(range(1, LATEST + 1))


def test_migrating_again_changes_nothing(path: Path) -> None:
    assert store_file(path).migrate() == [name for name, _ in migrations()]
    before = schema_of(path)
    assert store_file(path).migrate() == []
    assert store_file(path).pending_sql() == ""
    assert schema_of(path) == before


# --- additive ---------------------------------------------------------------------------

# What makes a running replica of an older release fail: something it uses is gone or renamed.
BREAKING = re.compile(
    r"\bDROP\s+(TABLE|COLUMN|VIEW|INDEX|TRIGGER)\b|\bRENAME\b|\bALTER\b[^;]*\bDROP\b", re.IGNORECASE
)


def breaking(sql: str) -> list[str]:
    """The statements of a migration that a running replica may not survive."""
    text = re.sub(r"'(?:[^']|'')*'", "''", plain(sql))
    return [statement.strip() for statement in text.split(";") if BREAKING.search(statement)]


@pytest.mark.parametrize("step", migrations()[1:], ids=lambda step: step[0])
def test_every_later_migration_only_adds(step: tuple[str, str]) -> None:
    _, sql = step
    assert breaking(sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE log",
        "drop  index if exists log_by_key",
        "CREATE TABLE a (b); DROP VIEW threads",
        "ALTER TABLE log RENAME TO entries",
        "ALTER TABLE log RENAME COLUMN at TO stored_at",
        "ALTER TABLE log DROP at",
        "ALTER TABLE log\n    DROP COLUMN at",
    ],
)
def test_a_migration_that_takes_something_away_would_be_noticed(sql: str) -> None:
    assert breaking(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE log ADD COLUMN tokens INTEGER",
        "CREATE INDEX dropped ON log (at) -- DROP TABLE log",
        "INSERT INTO stateward VALUES ('note', 'never; DROP TABLE it''s log')",
    ],
)
def test_a_migration_that_only_adds_is_allowed(sql: str) -> None:
    assert not breaking(sql)


# --- several processes ------------------------------------------------------------------


def test_sixteen_processes_open_a_fresh_file_at_once_and_all_succeed(
    start: Start, tmp_path: Path
) -> None:
    rounds, count = 40, 16
    openers = [start("opener", ("async", "sync")[who % 2], who) for who in range(count)]
    for opener in openers:
        opener.until_said("ready")
    for number in range(1, rounds + 1):
        path = tmp_path / f"agents-{number}.db"
        for opener in openers:
            opener.tell(f"sqlite:///{path}")
        said = [opener.until_lines(1 + number)[number] for opener in openers]
        assert said == ["opened"] * count
        with stateward.sync.open(f"sqlite:///{path}") as store:
            assert store.user("u-1").get().value == {"n": count}
            assert len(list(store.threads())) == count
            assert store.describe().schema == LATEST
    for opener in openers:
        opener.tell("")
        opener.finish()


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_fresh_file_that_another_process_has_locked_is_waited_for(
    start: Start, path: Path, url: str, colour: str
) -> None:
    opener = start("opener", colour, 1)
    opener.until_said("ready")
    holder = start("holder", path, "write")
    holder.until_said("held")
    opener.tell(url)
    time.sleep(0.3)  # long enough to give up, if it does
    holder.tell("release")
    assert opener.until_lines(2)[1] == "opened"
    holder.finish()
    opener.tell("")
    opener.finish()


def make_first_version(path: Path) -> None:
    """The file as the first release left it."""
    name, sql = migrations()[0]
    connection = store_file(path).connect()
    try:
        assert connection.pragma("journal_mode", "wal") == "wal"
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(sql).fetchall()
        oldest = schema._oldest(sql)
        connection.execute("INSERT INTO stateward VALUES ('oldest_release', ?)", (oldest,))
        connection.pragma("user_version", int(name[:4]))
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        connection.close()


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> schema.Step:
    """Makes this process one of a newer release, which has a migration more."""
    step = (
        f"{LATEST + 1:04}_later",
        """-- oldest release that may use the schema after this step: 0.1.0
        ALTER TABLE entities ADD COLUMN colour TEXT;
        ALTER TABLE log ADD COLUMN tokens INTEGER;
        CREATE INDEX log_by_time ON log (at);""",
    )
    steps = [*migrations(), step]
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    return step


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_running_replica_keeps_working_while_another_process_migrates(
    start: Start, path: Path, url: str, colour: str, newer: schema.Step
) -> None:
    replica = start("older_release", url, colour)
    replica.until_said("ready")
    replica.tell("go")
    replica.until_lines(4)

    assert store_file(path).migrate() == [newer[0]]

    before = len(replica.lines)
    replica.until_lines(before + 4)
    replica.tell("stop")
    facts = replica.report()
    assert (facts["opened_at"], facts["closed_at"]) == (LATEST, LATEST + 1)
    with stateward.sync.open(url) as store:
        assert store.user("u-1").get().value == {"n": facts["rounds"]}
        messages = store.thread("t-1", user="u-1").load().messages
    assert [(m["n"], m["part"]) for m in messages] == [
        (number, part) for number in range(facts["rounds"]) for part in (1, 2)
    ]


def test_an_older_release_may_also_start_on_the_migrated_file(
    start: Start, path: Path, url: str, newer: schema.Step
) -> None:
    with stateward.sync.open(url) as store:
        assert store.describe().schema == LATEST + 1
    replica = start("older_release", url, "async")
    replica.until_said("ready")
    replica.tell("go")
    replica.until_lines(3)
    replica.tell("stop")
    facts = replica.report()
    assert (facts["opened_at"], facts["closed_at"]) == (LATEST + 1, LATEST + 1)


def test_a_first_version_file_migrates_to_the_documented_schema(path: Path, tmp_path: Path) -> None:
    make_first_version(path)
    fresh = tmp_path / "fresh.db"
    store_file(fresh).open()
    assert schema_of(path) != schema_of(fresh)
    store_file(path).migrate()
    assert schema_of(path) == schema_of(fresh)
