"""What a memory of the user's own can offer so that its backup is drilled."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from stateward import cli
from stateward.audit.faults.route import Route, plain_route


class FileMemory:
    """Sound: one row a message, in one transaction an append."""

    def __init__(self, namespace: str, url: str | None = None) -> None:
        assert url is not None
        self.path = os.path.join(url.removeprefix("file://"), f"{namespace}.db")

    def open(self) -> None:
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS keys (thread, key, UNIQUE (thread, key))"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS messages (thread, text)")

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30.0)

    def append(self, thread: str, messages: list[dict[str, Any]], key: str) -> None:
        connection = self._connected()
        with connection:
            found = connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (thread, key))
            if found.rowcount:
                rows = [(thread, json.dumps(message)) for message in messages]
                connection.executemany("INSERT INTO messages VALUES (?, ?)", rows)
        connection.close()

    def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        connection = self._connected()
        query = "SELECT text FROM messages WHERE thread = ? ORDER BY rowid"
        found = [json.loads(text) for (text,) in connection.execute(query, (thread,))]
        connection.close()
        return found if last is None else found[max(0, len(found) - last) :]

    def backup(self, folder: str) -> None:
        _copied(self._connected(), sqlite3.connect(os.path.join(folder, "copy.db")))

    def restore(self, folder: str) -> None:
        _copied(sqlite3.connect(os.path.join(folder, "copy.db")), self._connected())

    def clean(self) -> None:
        for end in ("", "-wal", "-shm"):
            Path(self.path + end).unlink(missing_ok=True)


def _copied(source: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    source.backup(copy)
    source.close()
    copy.close()


class Forgetful(FileMemory):
    """Its backup lacks the newest of every conversation but one."""

    def backup(self, folder: str) -> None:
        super().backup(folder)
        copy = sqlite3.connect(os.path.join(folder, "copy.db"))
        with copy:
            copy.execute("DELETE FROM messages WHERE rowid > 5")
        copy.close()


@pytest.mark.parametrize(("memory", "verdict"), [("FileMemory", "pass"), ("Forgetful", "fail")])
def test_a_backup_of_ones_own_is_drilled(
    memory: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{':'.join(sys.path)}")
    kept, out = tmp_path / "kept", tmp_path / "out"
    kept.mkdir()
    arguments = [
        f"audit.processes.test_custom:{memory}",
        "--url",
        f"file://{kept}",
        "--only",
        "backup",
    ]
    cli.main(["audit", *arguments, "--profile", "ci", "--yes", "--output", str(out)])
    (answer,) = json.loads((out / "report.json").read_text())["answers"]
    assert answer["verdict"] == verdict, answer["summary"]
    assert list(kept.iterdir()) == []  # the copy is cleaned away too


class Untidy(FileMemory):
    """Its cleaning fails, as one does that closes a connection of another thread."""

    def clean(self) -> None:
        raise sqlite3.ProgrammingError("a connection of another thread")


def test_a_memory_that_cannot_be_cleaned_costs_no_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{':'.join(sys.path)}")
    out = tmp_path / "out"
    arguments = [
        "audit.processes.test_custom:Untidy",
        "--url",
        f"file://{tmp_path}",
        "--only",
        "sessions",
    ]
    cli.main(["audit", *arguments, "--profile", "ci", "--yes", "--output", str(out)])
    report = json.loads((out / "report.json").read_text())
    assert [each["verdict"] for each in report["answers"]] == ["pass"]
    namespace = min((file.stem for file in tmp_path.glob("*.db")), key=len)
    assert namespace in report["left"]
    assert "ProgrammingError: a connection of another thread" in report["left"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mysql://user:secret@db:3306/agents", ("db", 3306)),
        ("http://service/base", ("service", 80)),
        ("mongodb://db/agents", None),
        ("redis://a,b", None),
    ],
)
def test_a_proxy_is_put_before_whatever_has_a_host_and_a_port(
    url: str, address: tuple[str, int] | None
) -> None:
    found = plain_route(url)
    if address is None:
        assert isinstance(found, str)
    else:
        assert isinstance(found, Route)
        assert found.addresses == [address]
        assert ":7/" in found.change([7])["url"]
