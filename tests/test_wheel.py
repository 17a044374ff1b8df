"""What people install: the built wheel, in a fresh environment, far from the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import stateward

ROOT = Path(__file__).resolve().parent.parent
KINDS = {".py", ".sql", ".lua", ".typed", ".yml", ".json", ".css", ".js", ".bash", ".fish", ".zsh"}
DASHBOARD = ROOT / "src" / "stateward" / "server" / "ui"  # all of it, with licences


def run(*command: str | Path, cwd: Path) -> str:
    """What it printed; its errors fail the test with their text."""
    unwanted = ("PYTHON", "STATEWARD", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    options = ("--wheel", "--no-isolation", "--outdir", folder)
    run(sys.executable, "-m", "build", *options, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what the wheel asks for."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    fresh = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", fresh)
    run(*pip, "install", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return fresh


def test_the_wheel_holds_the_types_the_sql_and_the_lua_and_nothing_else(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    needed = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if path.suffix in KINDS or DASHBOARD in path.parents
    }
    assert "stateward/py.typed" in needed
    assert "stateward/engines/sqlite/migrations/0001_initial.sql" in needed
    assert "stateward/engines/redis/lua/commit.lua" in needed
    assert "stateward/server/ui/vendor/LICENSE.preact" in needed
    assert needed <= held
    information = f"stateward-{stateward.__version__}.dist-info/"
    assert [name for name in held - needed if not name.startswith(information)] == []
    assert f"{information}licenses/LICENSE" in held


def test_it_brings_only_what_it_needs(python: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.metadata import distributions\n"
        "print(*sorted(found.name for found in distributions()))"
    )
    assert run(python, "-I", "-c", code, cwd=tmp_path).split() == ["apsw", "msgspec", "stateward"]


def test_the_readme_quickstart_runs_twice_without_the_checkout(
    python: Path, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert first is not None
    script = tmp_path / "quickstart.py"
    script.write_text(f"{first[1]}\nprint('from', stateward.__file__)\n", "utf-8")
    said = [run(python, "-I", "-W", "error", script, cwd=tmp_path) for _ in range(2)]
    assert said[0] == said[1]  # the second run remembers, and its key keeps the turn from doubling
    _, _, origin = said[0].rpartition("from ")
    assert Path(origin.strip()).is_relative_to(python.parent.parent)


def test_the_command_is_installed_and_finds_its_sql(python: Path, tmp_path: Path) -> None:
    command = python.with_name("stateward")
    said = run(command, "--version", cwd=tmp_path)
    assert said == f"stateward {stateward.__version__}\n"
    assert "0001_initial" in run(command, "migrate", "sqlite:///agents.db", cwd=tmp_path)
    assert "answers" in run(command, "health", "sqlite:///agents.db", cwd=tmp_path)


# What each example prints when all went well. Those that need a framework have tests of their own.
EXAMPLES = {"demo": "All of it holds", "web_handler": "all answered, each stored once"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_without_the_checkout(name: str, python: Path, tmp_path: Path) -> None:
    """Also without what development installs."""
    script, empty = tmp_path / f"{name}.py", tmp_path / "empty"
    script.write_text((ROOT / "examples" / script.name).read_text("utf-8"), "utf-8")
    empty.mkdir()
    assert EXAMPLES[name] in run(python, "-I", "-W", "error", script, cwd=empty)
    assert list(empty.iterdir()) == []


def test_no_example_needs_the_checkout() -> None:
    for path in (ROOT / "examples").glob("*.py"):
        text = path.read_text("utf-8")
        assert "sys.path" not in text, path.name
        assert "tests" not in text.replace("requests", ""), path.name
