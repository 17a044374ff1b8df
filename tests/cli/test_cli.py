"""The real command, in a process of its own, as people and deployments run it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stateward
from stateward import sync
from stateward.cli import COMMANDS, main
from stateward.world import World

TWO_DAYS = 2 * 86_400.0


def run(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stateward", *arguments],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=60,
    )


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "STATEWARD_URL"}
    return {**kept, "COLUMNS": "100", **(more or {})}


def assert_one_line(ran: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """What people see of an error: one line on stderr, and nothing on stdout."""
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("stateward: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    for word in words:
        assert word in ran.stderr


class TwoDaysAgo(World):
    """Writes made through it are older than the day that gone state is still kept for."""

    def now(self) -> float:
        return time.time() - TWO_DAYS


def fill_with_expired(path: Path, threads: int, messages: int) -> str:
    url = f"sqlite:///{path}?durability=relaxed"
    with sync.open(url, world=TwoDaysAgo(), retain=1.0) as store:
        for number in range(threads):
            store.thread(f"s-{number}").append(*({"n": n} for n in range(messages)))
    return f"sqlite:///{path}"


# --- what it is called with -------------------------------------------------------------


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("stateward")
    said = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout) == (0, f"stateward {stateward.__version__}\n")
    assert run("--version", cwd=tmp_path).stdout == said.stdout


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    _, _, examples = capsys.readouterr().out.partition("examples:")
    assert f"stateward {command}".strip() in examples
    assert "sqlite:///" in examples


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("mirgate",), "there is no command 'mirgate' (did you mean 'migrate'?)"),
        (("--verison",), "--verison (did you mean '--version'?); see: stateward --help"),
        (("migrate", "--printsql", "memory://"), "--printsql (did you mean '--print-sql'?)"),
        (("migrate", "--printsql", "memory://"), "see: stateward migrate --help"),
        (("inspect", "--namespce=x", "memory://"), "--namespce (did you mean '--namespace'?)"),
        (("audit", "cleen", "memory://"), "'cleen' is not a target (did you mean 'clean'?)"),
        (("audit", "--yes", "compare", "memory://"), "come right after audit"),
        (("audit", "compare", "--requre", "p95_ms=20"), "(did you mean '--require'?)"),
        (("audit", "init", "one.py", "two.py"), "one FILE"),
        (("audit", "init", "no/such/folder/one.py"), "cannot be written"),
        (("verify", "agents.backup", "other.backup"), "unrecognized arguments: other.backup"),
        (("completion", "csh"), "bash"),
        (("sweep", "memory://", "--limit", "many"), "--limit"),
        (("sweep", "memory://", "--limit", "0"), "at least 1"),
        (("health",), "STATEWARD_URL"),
        (("health", "agents.db"), "sqlite:///agents.db"),
        (("health", "sqllite:///agents.db"), "did you mean 'sqlite'"),
        (("migrate", "sqlite:///agents.db?durabilty=full"), "did you mean 'durability'"),
        (("migrate", "sqlite:///no/such/folder/agents.db"), "create it first"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], word: str, tmp_path: Path
) -> None:
    assert_one_line(run(*arguments, cwd=tmp_path), 2, word)
    assert list(tmp_path.iterdir()) == []


def test_without_arguments_it_shows_its_help(tmp_path: Path) -> None:
    shown = run(cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == run("--help", cwd=tmp_path).stdout
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{summary}$", shown.stdout, re.MULTILINE)


def test_the_help_of_audit_lists_its_sub_commands_and_groups_its_options(tmp_path: Path) -> None:
    shown = run("audit", "--help", cwd=tmp_path).stdout
    for name in ("audit clean", "audit compare", "audit init"):
        assert f"  {name}" in shown.partition("examples:")[0]
    headings = re.findall(r"^([a-z ]+):$", shown, re.MULTILINE)
    assert {"size", "where", "care", "your own infrastructure", "the report"} <= {*headings}


def test_init_writes_a_template_once(tmp_path: Path) -> None:
    wrote = run("audit", "init", "prices", "mine.toml", cwd=tmp_path)
    assert wrote.stdout == "wrote mine.toml; fill it in, then: stateward audit --prices mine.toml\n"
    before = (tmp_path / "mine.toml").read_text()
    assert_one_line(run("audit", "init", "mine.toml", cwd=tmp_path), 2, "already exists")
    assert (tmp_path / "mine.toml").read_text() == before
    assert json.loads(run("audit", "init", "--json", cwd=tmp_path).stdout) == {
        "file": "audit_target.py"
    }


WORDS = ["sqlite:///agents.db", "thread", "s-1"]


@pytest.mark.parametrize("at", range(len(WORDS) + 1))
def test_options_may_stand_between_words(at: int, tmp_path: Path) -> None:
    with sync.open(f"sqlite:///{tmp_path}/agents.db", namespace="support") as store:
        store.thread("s-1").append({"role": "user", "content": "hello"})
    words = [*WORDS[:at], "--namespace", "support", *WORDS[at:]]
    said = run("inspect", "--json", *words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert [row["version"] for row in json.loads(said.stdout)["rows"]] == [1]


def test_an_id_may_begin_with_a_dash(tmp_path: Path) -> None:
    with sync.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.thread("-x").append({"role": "user", "content": "hello"})
    said = run("inspect", "--json", "sqlite:///agents.db", "thread", "--", "-x", cwd=tmp_path)
    assert json.loads(said.stdout)["about"]["id"] == "-x"


def test_the_url_may_come_from_the_environment(tmp_path: Path) -> None:
    ran = run("migrate", cwd=tmp_path, env={"STATEWARD_URL": "sqlite:///agents.db"})
    assert ran.returncode == 0
    assert (tmp_path / "agents.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "nosuch://agent:s3cr3t@host/db",
        "sqlite://agent:s3cr3t@/agents.db",
        "sqlite://agent:s3cr3t@host/agents.db?password=s3cr3t",
        "postgresql:agent:s3cr3t@host/db",
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_credentials_are_never_shown(
    command: str,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), url]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("stateward: ")
    assert "s3cr3t" not in said.out + said.err


def test_a_reader_that_goes_away_early_is_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "stateward", "migrate", "sqlite:///a.db", "--print-sql"]
    ran = subprocess.run(
        command, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, env=environment(), timeout=60
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")


# --- migrate ----------------------------------------------------------------------------


def test_migrate_applies_what_is_missing_and_then_nothing(tmp_path: Path) -> None:
    first = run("migrate", "sqlite:///agents.db", "--json", cwd=tmp_path)
    applied = json.loads(first.stdout)["applied"]
    assert applied[0] == "0001_initial"
    again = run("migrate", "sqlite:///agents.db", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {"url": "sqlite:///agents.db", "applied": []}
    plain = run("migrate", "sqlite:///other.db", cwd=tmp_path)
    assert plain.stdout == f"sqlite:///other.db: applied {', '.join(applied)}\n"
    assert "up to date" in run("migrate", "sqlite:///other.db", cwd=tmp_path).stdout


def test_the_printed_sql_builds_what_migrate_builds_and_changes_nothing(tmp_path: Path) -> None:
    printed = run("migrate", "sqlite:///agents.db", "--print-sql", cwd=tmp_path)
    assert printed.returncode == 0
    assert not (tmp_path / "agents.db").exists()
    by_hand = sqlite3.connect(":memory:")
    by_hand.executescript(printed.stdout)
    run("migrate", "sqlite:///agents.db", cwd=tmp_path)
    migrated = sqlite3.connect(tmp_path / "agents.db")
    query = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
    assert by_hand.execute(query).fetchall() == migrated.execute(query).fetchall()
    by_hand.close()
    migrated.close()
    after = run("migrate", "sqlite:///agents.db", "--print-sql", "--json", cwd=tmp_path)
    assert json.loads(after.stdout)["sql"] == ""


def test_a_store_without_a_schema_says_so(tmp_path: Path) -> None:
    printed = run("migrate", "memory://", "--print-sql", cwd=tmp_path)
    assert (printed.returncode, printed.stdout.count("\n")) == (0, 1)
    assert "no schema" in printed.stdout
    assert run("migrate", "memory://", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("more", [(), ("--print-sql",)])
def test_migrating_what_is_no_store_fails_in_one_line(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "agents.db").write_bytes(b"no database at all" * 400)
    assert_one_line(run("migrate", "sqlite:///agents.db", *more, cwd=tmp_path), 1, "damaged")


@pytest.mark.parametrize("more", [(), ("--print-sql",)])
def test_migrating_a_store_with_a_torn_page_fails_in_one_line(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    run("migrate", "sqlite:///agents.db", cwd=tmp_path)
    with (tmp_path / "agents.db").open("r+b") as file:
        file.seek(100)  # behind the header: the page that lists the tables
        file.write(b"\xff" * 900)
    assert_one_line(run("migrate", "sqlite:///agents.db", *more, cwd=tmp_path), 1, "damaged")


# --- health -----------------------------------------------------------------------------


def test_health_of_a_store_that_answers(tmp_path: Path) -> None:
    run("migrate", "sqlite:///agents.db", cwd=tmp_path)
    ran = run("health", "sqlite:///agents.db?durability=relaxed", "--json", cwd=tmp_path)
    said = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert (said["ok"], said["engine"], said["error"]) == (True, "sqlite", None)
    assert "power failure may lose the last" in said["durability"]
    plain = run("health", "sqlite:///agents.db", cwd=tmp_path)
    assert plain.returncode == 0
    assert "survives the process and a power failure" in plain.stdout


def test_health_of_a_store_that_is_not_there_creates_none(tmp_path: Path) -> None:
    ran = run("health", "sqlite:///agnets.db", "--json", cwd=tmp_path)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["ok"] is False
    assert_one_line(run("health", "sqlite:///agnets.db", cwd=tmp_path), 1, "there is no store")
    assert list(tmp_path.iterdir()) == []


def test_health_of_a_damaged_store_says_so_and_fails(tmp_path: Path) -> None:
    (tmp_path / "agents.db").write_bytes(b"no database at all" * 400)
    assert_one_line(run("health", "sqlite:///agents.db", cwd=tmp_path), 1, "damaged", "backup")


# --- sweep ------------------------------------------------------------------------------


def test_sweep_removes_all_that_is_gone_and_nothing_else(tmp_path: Path) -> None:
    url = fill_with_expired(tmp_path / "agents.db", threads=5, messages=8)
    with sync.open(url) as store:
        store.thread("alive").append({"role": "user", "content": "still here"})
    ran = run("sweep", url, "--limit", "7", "--json", cwd=tmp_path)
    said = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert said["entities"] == 5
    assert (said["more"], said["interrupted"]) == (False, False)
    assert ran.stderr == ""  # nobody watches: no progress
    with sync.open(url) as store:
        assert [info.id for info in store.threads()] == ["alive"]
    left = sqlite3.connect(tmp_path / "agents.db")
    assert left.execute("SELECT count(*) FROM log").fetchone() == (1,)
    left.close()


def test_sweep_once_is_one_bounded_step(tmp_path: Path) -> None:
    url = fill_with_expired(tmp_path / "agents.db", threads=5, messages=8)
    ran = run("sweep", url, "--limit", "10", "--once", "--json", cwd=tmp_path)
    said = json.loads(ran.stdout)
    assert (ran.returncode, said["more"], said["interrupted"]) == (0, True, False)
    assert 0 < said["rows"] <= 12


def test_sweep_does_not_create_a_store(tmp_path: Path) -> None:
    assert_one_line(run("sweep", "sqlite:///agnets.db", cwd=tmp_path), 1, "there is no store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sweep_stops_between_two_steps_and_goes_on_later(number: int, tmp_path: Path) -> None:
    url = fill_with_expired(tmp_path / "agents.db", threads=4, messages=1500)
    watcher, terminal = pty.openpty()  # progress is shown to a terminal: it tells when to stop it
    process = subprocess.Popen(
        [sys.executable, "-m", "stateward", "sweep", url, "--limit", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment(),
        text=True,
    )
    os.close(terminal)
    try:
        assert b"removed" in os.read(watcher, 1000)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(watcher)
    said = json.loads(out)
    assert process.returncode == 4
    assert (said["more"], said["interrupted"]) == (True, True)
    rest = json.loads(run("sweep", url, "--json", cwd=tmp_path).stdout)
    assert said["rows"] + rest["rows"] >= 4 * 1500
    assert said["entities"] + rest["entities"] == 4
    assert rest["more"] is False
