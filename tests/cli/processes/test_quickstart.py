"""`stateward quickstart`: one command, and an agent that remembers runs on one's own machine."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from servers.ports import free_port
from servers.postgres import PostgresServer
from servers.redis import RedisServer

from stateward.cli.quickstart import FRAMEWORK_CHOICES

PATIENCE = 120.0
QUICKSTART = [sys.executable, "-W", "error", "-m", "stateward", "quickstart"]


def environment(**more: str) -> dict[str, str]:
    return {name: it for name, it in os.environ.items() if name != "STATEWARD_URL"} | more


def ran(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def quickstart(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return ran(folder, *QUICKSTART, *words)


def run_again(folder: Path, name: str = "agent.py", **env: str) -> str:
    again = ran(folder, sys.executable, "-W", "error", name, "And when does it come?", **env)
    assert again.returncode == 0, again.stderr
    return again.stdout


def assert_refused(said: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert (said.returncode, said.stdout) == (code, ""), said.stderr
    assert said.stderr.count("\n") == 1
    for word in words:
        assert word in said.stderr


# --- what is written, and that it remembers ---------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORK_CHOICES)
def test_the_agent_of_every_framework_runs_and_remembers(framework: str, tmp_path: Path) -> None:
    ran = quickstart(tmp_path, "--framework", framework, "--engine", "sqlite", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = json.loads(ran.stdout)
    assert (said["file"], said["url"]) == ("agent.py", "sqlite:///agents.db")
    assert said["said"] == "I remember 0 earlier messages.\n"
    assert run_again(tmp_path) == "I remember 2 earlier messages.\n"
    lines = (tmp_path / "agent.py").read_text("utf-8").splitlines()
    assert len(lines) <= 60
    assert 'URL = "sqlite:///agents.db"' in lines
    assert "Your model goes here" in lines[said["model_line"] - 2]
    assert "model" in lines[said["model_line"] - 1].lower()


def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    said = quickstart(tmp_path, "--yes").stdout
    assert "$ python agent.py\nI remember 0 earlier messages.\n\nNext:\n" in said
    assert '  python agent.py "And when does it come?"' in said
    assert "  stateward ui sqlite:///agents.db" in said
    assert "  edit agent.py, line " in said


def test_state_may_be_in_valkey(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "server").start()
    try:
        said = quickstart(tmp_path, "--framework", "langgraph", "--engine", server.url)
        assert (said.returncode, said.stderr) == (0, "")
        assert "I remember 0 earlier messages." in said.stdout
        assert run_again(tmp_path) == "I remember 2 earlier messages.\n"
    finally:
        server.stop()


def test_state_may_be_in_postgresql_and_who_logs_in_is_in_no_file(tmp_path: Path) -> None:
    server = PostgresServer().start()
    try:
        said = quickstart(tmp_path, "desk.py", "--yes", "--engine", server.url)
        assert (said.returncode, said.stderr) == (0, "")
        assert "export STATEWARD_URL=…" in said.stdout
        assert "postgres@" not in (tmp_path / "desk.py").read_text("utf-8") + said.stdout
        again = run_again(tmp_path, "desk.py", STATEWARD_URL=server.url)
        assert again == "I remember 2 earlier messages.\n"
    finally:
        server.remove()


# --- what it is careful with ------------------------------------------------------------


def test_a_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine = True\n")
    assert_refused(quickstart(tmp_path, "--yes"), 2, "agent.py exists already", "--force")
    assert (tmp_path / "agent.py").read_text() == "mine = True\n"
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
    assert quickstart(tmp_path, "--yes", "--force").returncode == 0
    assert "mine" not in (tmp_path / "agent.py").read_text()


def test_where_a_store_does_not_answer_nothing_is_written(tmp_path: Path) -> None:
    said = quickstart(tmp_path, "--yes", "--engine", f"redis://127.0.0.1:{free_port()}")
    assert_refused(said, 1, "redis://127.0.0.1:")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "pass --engine and --framework, or --yes"),
        (("--yes", "--engine", "sqlight"), "did you mean 'sqlite'?"),
        (("--yes", "--framework", "langraph"), "langgraph"),
        (("--framework", "openai-agents", "--yes", "agents.py"), "would hide the package"),
        (("--yes", "no/such/folder/agent.py"), "cannot be written"),
    ],
)
def test_wrong_usage_is_told_what_to_do(
    words: tuple[str, ...], advice: str, tmp_path: Path
) -> None:
    assert_refused(quickstart(tmp_path, *words), 2, advice)
    assert not list(tmp_path.glob("*.py"))


# --- the two questions ------------------------------------------------------------------


def test_it_asks_two_questions_and_takes_numbers_names_and_defaults(tmp_path: Path) -> None:
    assert "LangGraph" in asked(tmp_path, "one.py", "", "2")
    assert "StatewardSaver" in (tmp_path / "one.py").read_text("utf-8")
    url = f"sqlite:///{tmp_path}/other.db"
    assert "3  postgres" in asked(tmp_path, "two.py", url, "pydantic-ai")
    assert url in (tmp_path / "two.py").read_text("utf-8")
    assert "StatewardConversation" in (tmp_path / "two.py").read_text("utf-8")


def asked(folder: Path, name: str, *answers: str) -> str:
    """What it says to somebody at a terminal who answers each question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*QUICKSTART, name],
        cwd=folder,
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said, left = "", list(answers)
    try:
        while "put your model there" not in said:
            ready, _, _ = select.select([ours], [], [], PATIENCE)
            assert ready, said
            said += os.read(ours, 4096).decode()
            if left and said.endswith("]: "):
                os.write(ours, f"{left.pop(0)}\n".encode())
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert left == []
    return said
