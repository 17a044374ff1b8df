"""Completion, tried in the shells themselves."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from system_packages import find, is_required

ROOT = Path(__file__).resolve().parent.parent.parent
BASH = """
source "$1"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
$(complete -p stateward | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""

# What was typed, and what is offered. Words are taken apart at colons as bash does it.
TYPED = [
    ("ins", ["inspect"]),
    ("audit ", ["clean", "compare", "init", "list", "show"]),
    ("audit co", ["compare"]),
    ("audit compare --req", ["--require"]),
    ("audit --profile ", ["quick", "ci", "full"]),
    ("bench --only ap", ["append"]),
    ("inspect thr", ["thread"]),
    ("inspect sqlite : ///agents.db --namespace x re", ["replicas", "repeats"]),
    ("thread ", ["delete", "export", "list", "show"]),
    ("lock br", ["break"]),
    ("thread delete --d", ["--dry-run"]),
    ("backup sqlite : ///agents.db age", ["agents.backup"]),
    ("completion z", ["zsh"]),
    ("quickstart --framework l", ["langgraph"]),
    ("quickstart --engine ", ["sqlite", "redis", "postgres"]),
    ("sweep --l", ["--limit"]),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the command prints for each shell."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, shell in (("bash", "bash"), ("fish", "fish"), ("_stateward", "zsh")):
        (folder / name).write_text(printed("completion", shell))
    return folder


def printed(*arguments: str) -> str:
    command = [sys.executable, "-m", "stateward", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_bash_completes(typed: str, offered: list[str], scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "agents.backup").touch()
    words = ("stateward", *typed.split(" "))
    ran = subprocess.run(
        ["bash", "-c", BASH, "bash", scripts / "bash", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == offered


def shell(name: str) -> str:
    path = find(name)
    if path is None:
        if is_required(name):
            pytest.fail(f"{name} is not installed: run tools/system_packages.py")
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_fish_completes(typed: str, offered: list[str], scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "agents.backup").touch()
    line = f"stateward {typed.replace(' : ', ':')}"
    command = f"source {scripts / 'fish'}; complete -C '{line}'"
    said = subprocess.run(
        [shell("fish"), "--no-config", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert [one.partition("\t")[0] for one in said.stdout.splitlines()] == offered


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ins", "inspect"),
        ("audit comp", "audit compare"),
        ("audit compare --req", "audit compare --require"),
        ("audit --profile qu", "audit --profile quick"),
        ("inspect wor", "inspect workflow"),
        ("user er", "user erase"),
    ],
)
def test_zsh_completes(typed: str, completed: str, scripts: Path, tmp_path: Path) -> None:
    path = shell("zsh")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(path, ["zsh", "-f", "-i"], {"HOME": str(tmp_path), "TERM": "dumb", "PS1": "> "})
    try:
        begin = f"fpath=({scripts} $fpath); autoload -U compinit; compinit -u -D; print be''gun\n"
        os.write(terminal, begin.encode())
        read_until(terminal, "begun")
        os.write(terminal, f"stateward {typed}\t".encode())
        read_until(terminal, f"stateward {completed}")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, wanted: str) -> None:
    said, end = "", time.monotonic() + 30
    while wanted not in said:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {wanted!r} in {said!r}"
        said += os.read(terminal, 4096).decode(errors="replace")


def test_the_scripts_are_what_the_commands_say() -> None:
    command = [sys.executable, ROOT / "tools" / "completions.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr


def test_the_script_may_be_had_as_json() -> None:
    as_json = json.loads(printed("completion", "bash", "--json"))
    assert as_json == {"shell": "bash", "script": printed("completion", "bash")}
