"""The schema of the file: as documented, made once, and changed under running replicas."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import stateward.sync
from processes.children import begin_together
from processes.conftest import Start
from stateward.engines.sql import Migration
from stateward.engines.sqlite import schema
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.schema import APPLICATION_ID, migrations
from stateward.world import World

LATEST = migrations()[-1].number


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


def test_a_fresh_file_has_what_the_migrations_say(tmp_path: Path) -> None:
    opened, documented = tmp_path / "opened.db", tmp_path / "documented.db"
    store_file(opened).open()
    with connected(documented) as connection:
        for step in migrations():
            connection.execute(step.sql).fetchall()
    assert schema_of(opened) == schema_of(documented)
    assert {("table", "entities"), ("table", "log"), ("view", "threads")} <= set(schema_of(opened))


def test_a_migrated_file_says_what_it_is_and_who_may_use_it(path: Path, url: str) -> None:
    with stateward.sync.open(url) as store:
        assert store.describe().schema == LATEST
    with connected(path) as connection:
        assert connection.pragma("user_version") == LATEST
        assert connection.pragma("application_id") == APPLICATION_ID
        assert connection.pragma("journal_mode") == "wal"
        rows = connection.execute("SELECT name, value FROM stateward").fetchall()
    assert rows == [("oldest_release", "0.2.0")]


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [step.number for step in migrations()]
    assert numbers == list(range(1, LATEST + 1))


def test_migrating_again_changes_nothing(path: Path) -> None:
    assert store_file(path).migrate() == [step.name for step in migrations()]
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


def test_every_later_migration_only_adds() -> None:
    assert {step.name: breaking(step.sql) for step in migrations()[1:] if breaking(step.sql)} == {}


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


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Migration:
    """Makes this process one of a newer release, which has a migration more."""
    step = Migration(
        f"{LATEST + 1:04}_later",
        """-- oldest release that may use the schema after this step: 0.2.0
        ALTER TABLE entities ADD COLUMN colour TEXT;
        ALTER TABLE log ADD COLUMN tokens INTEGER;
        CREATE INDEX log_by_time ON log (at);""",
    )
    steps = [*migrations(), step]
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    return step


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_running_replica_keeps_working_while_another_process_migrates(
    start: Start, path: Path, url: str, colour: str, newer: Migration
) -> None:
    replica = start("older_release", url, colour)
    begin_together([replica])
    replica.until_lines(4)

    assert store_file(path).migrate() == [newer.name]

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
    start: Start, path: Path, url: str, newer: Migration
) -> None:
    with stateward.sync.open(url) as store:
        assert store.describe().schema == LATEST + 1
    replica = start("older_release", url, "async")
    begin_together([replica])
    replica.until_lines(3)
    replica.tell("stop")
    facts = replica.report()
    assert (facts["opened_at"], facts["closed_at"]) == (LATEST + 1, LATEST + 1)


def test_a_file_migrated_step_by_step_has_the_schema_of_a_fresh_one(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store_file(path).open()
    newer = request.getfixturevalue("newer")
    fresh, documented = tmp_path / "fresh.db", tmp_path / "documented.db"
    store_file(fresh).open()
    assert schema_of(path) != schema_of(fresh)
    assert store_file(path).pending_sql() == newer.sql
    assert store_file(path).migrate() == [newer.name]
    with connected(documented) as connection:
        for step in schema.migrations():
            connection.execute(step.sql).fetchall()
    # SQLite puts an added column behind what stood there, with its own spacing.
    assert schema_of(path) == schema_of(fresh) == schema_of(documented)
