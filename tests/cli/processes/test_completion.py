"""Completion: what `stateward __complete` answers, and that the shells show it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stateward.audit.questions import QUESTIONS
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.cli import COMMANDS
from stateward.cli.complete import FILES, FOLDERS, candidates
from stateward.cli.inspect_sections import LISTS, SINGLES
from system_packages import find, is_required

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
SCRIPTS = {"bash": "stateward.bash", "fish": "stateward.fish", "zsh": "_stateward"}
THREAD_VERBS = ["delete", "export", "list", "lives", "pin", "show", "stop", "unpin"]
HEAVIEST = 640  # modules that a candidate may cost: the audit's options name all its questions

# The words after `stateward`, the last of which is being typed, and what it may become.
ASKED = [
    (["ins"], ["inspect"]),
    (["--v"], ["--version"]),
    (["nothing", ""], []),
    (["thread", ""], THREAD_VERBS),
    (["lock", "br"], ["break"]),
    (["thread", "delete", "--d"], ["--dry-run"]),
    (["thread", "show", "s-1", "--as", "open"], ["openai", "openai-responses"]),
    (["thread", "export", "sqlite:///a.db", "s-1", ""], [FILES]),
    (["audit", "co"], ["compare"]),
    (["audit", "compare", "--req"], ["--require"]),
    (["audit", "compare", "langgraph:"], ["langgraph:postgres", "langgraph:sqlite"]),
    (["audit", "naive:j"], ["naive:json-files"]),
    (["audit", "sqlite:///a.db", "--profile", ""], ["quick", "ci", "full"]),
    (["audit", "--profile=c"], ["--profile=ci"]),
    (["audit", "--profile", "ci", "--only", "outage,se"], ["outage,sessions", "outage,settings"]),
    (["audit", "--with-server", "re"], ["redis"]),
    (["audit", "--output", ""], [FOLDERS]),
    (["audit", "init", ""], ["prices", "config", FILES]),
    (["bench", "--only", "append,la"], ["append,last"]),
    (["bench", "--seconds", ""], []),
    (["inspect", "thr"], ["thread"]),
    (["inspect", "sqlite:///a.db", "--namespace", "x", "re"], ["replicas", "repeats"]),
    (["backup", "sqlite:///a.db", "a"], [FILES]),
    (["completion", "z"], ["zsh"]),
    (["quickstart", "--framework", "langg"], ["langgraph"]),
    (["quickstart", "--engine", ""], ["sqlite", "redis", "postgres"]),
    (["serve", "--jw"], ["--jwks"]),
    (["sweep", "--l"], ["--limit"]),
]
# What is typed, and what the shell offers: each way in which a shell takes part.
TYPED = [
    ("ins", ["inspect"]),
    ("thread ", THREAD_VERBS),
    ("inspect sqlite:///agents.db --namespace x re", ["replicas", "repeats"]),
    ("audit langgraph:p", ["langgraph:postgres"]),
    ("audit --profile=f", ["--profile=full"]),
    ("backup sqlite:///agents.db age", ["agents.backup"]),
    ("audit show --output rep", ["reports/"]),
]
PRESSED = [
    ("ins", "inspect"),
    ("audit comp", "audit compare"),
    ("audit compare --req", "audit compare --require"),
    ("audit langgraph:po", "audit langgraph:postgres"),
    ("audit --profile qu", "audit --profile quick"),
    ("inspect sqlite:///agents.db wor", "inspect sqlite:///agents.db workflow"),
    ("backup sqlite:///agents.db age", "backup sqlite:///agents.db agents.backup"),
]
BASH = """
source "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=("${@:3}") COMP_CWORD=$(($# - 3))
$(complete -p stateward | sed 's/.*-F \\([^ ]*\\).*/\\1/') stateward
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(("words", "expected"), ASKED)
def test_the_last_word_is_completed(words: list[str], expected: list[str]) -> None:
    assert [candidate.word for candidate in candidates(words)] == expected


def test_every_command_section_target_and_question_is_offered() -> None:
    offered = {candidate.word for candidate in candidates([""])}
    assert offered == {name for name in COMMANDS if " " not in name}
    sections = {candidate.word for candidate in candidates(["inspect", ""])}
    assert sections == {*LISTS, *SINGLES, "repeats"}
    assert {*FRAMEWORKS} < {candidate.word for candidate in candidates(["audit", ""])}
    questions = {candidate.word for candidate in candidates(["audit", "--only", ""])}
    assert questions == {question.id for question in QUESTIONS}


def test_a_candidate_comes_with_its_help() -> None:
    offered = candidates(["inspect", "--us"]) + candidates(["lock", "l"])
    assert offered == [
        ("--user", "only what belongs to this user"),
        ("list", "list locks and leaders with their holders"),
    ]


@pytest.mark.parametrize("name", [name for name in COMMANDS if " " not in name])
def test_a_candidate_costs_neither_a_framework_nor_an_engine(name: str) -> None:
    code = (
        "import sys; from stateward.cli import main\n"
        f"code = main(['__complete', *{name.split()}, '--he'])\n"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.partition("\t")[0]) == (0, "--help"), ran.stderr
    modules = ran.stderr.split()
    known = {"apsw", "msgspec", "stateward", "typing_extensions", *sys.stdlib_module_names}
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True
    )
    assert {m.partition(".")[0] for m in modules} <= known | set(bare.stdout.split())
    assert not [m for m in modules if re.match(r"stateward\.engines\.\w+\.", m)]
    assert len(modules) <= HEAVIEST


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the command prints for each shell."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, file in SCRIPTS.items():
        (folder / file).write_text(printed("completion", name))
    return folder


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "agents.backup").touch()
    (tmp_path / "reports").mkdir()


def printed(*arguments: str) -> str:
    command = [sys.executable, "-m", "stateward", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def shell(name: str) -> str:
    path = find(name)
    if path is None:
        if is_required(name):
            pytest.fail(f"{name} is not installed: run tools/system_packages.py")
        pytest.skip(f"{name} is not installed")
    return path


def run_shell(folder: Path, *command: str | Path) -> str:
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_bash_completes(typed: str, offered: list[str], scripts: Path, tmp_path: Path) -> None:
    line = f"stateward {typed}"
    parts = [p for p in re.split(r"([:=]+)|\s+", line) if p is not None]
    words = [p for p in parts[:-1] if p] + parts[-1:]  # as bash takes a line apart
    shown = run_shell(
        tmp_path, "bash", "-c", BASH, "bash", scripts / SCRIPTS["bash"], line, *words
    ).split()
    fixed = re.sub(r"[^:=]*$", "", typed.rpartition(" ")[2])
    assert [f"{fixed}{word}".rstrip("/") for word in shown] == [w.rstrip("/") for w in offered]


@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_fish_completes(typed: str, offered: list[str], scripts: Path, tmp_path: Path) -> None:
    command = f"source {scripts / SCRIPTS['fish']}; complete -C 'stateward {typed}'"
    shown = run_shell(tmp_path, shell("fish"), "--no-config", "-c", command)
    assert [one.partition("\t")[0] for one in shown.splitlines()] == offered


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize(("typed", "completed"), PRESSED)
def test_a_tab_in_the_terminal_completes(
    name: str, typed: str, completed: str, scripts: Path, tmp_path: Path
) -> None:
    path = "/bin/bash" if name == "bash" else shell(name)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        alone = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",)}[name]
        home = {"HOME": str(tmp_path), "TERM": "dumb", "PS1": "> ", "PATH": PATH}
        os.execve(path, [name, *alone, "-i"], home)
    begin = {
        "bash": f"source {scripts / SCRIPTS['bash']}; echo be''gun\n",
        "zsh": f"fpath=({scripts} $fpath); autoload -U compinit; compinit -u -D; print be''gun\n",
    }
    try:
        os.write(terminal, begin[name].encode())
        read_until(terminal, "begun")
        os.write(terminal, f"stateward {typed}\t".encode())
        read_until(terminal, f"stateward {completed}")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, wanted: str) -> None:
    shown, end = "", time.monotonic() + 30
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {wanted!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode(errors="replace")


def test_the_script_may_be_had_as_json() -> None:
    as_json = json.loads(printed("completion", "bash", "--json"))
    assert as_json == {"shell": "bash", "script": printed("completion", "bash")}
