"""What the package says to authors of engines is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from stateward.testing import conformance

ENGINE = """
from stateward.{module} import SqliteEngine
from stateward.engines.sqlite.file import File
from stateward.ops import Commit, LogAt
from msgspec.structs import replace

class MyEngine(SqliteEngine):
    def __init__(self, folder, world):
        super().__init__(File(str(folder / "my.db"), relaxed=True, migrate=True, world=world))

class Forgetful(MyEngine):
    {maybe_async}def execute(self, ops, *, deadline=None):
        return {maybe_await}super().execute([unchecked(op) for op in ops], deadline=deadline)

def unchecked(op):
    if not isinstance(op, Commit):
        return op
    return replace(op, checks=tuple(c for c in op.checks if not isinstance(c, LogAt)))
"""


def example(documentation: str) -> str:
    """The code in a docstring."""
    return dedent(re.search(r"\n\n((?:    .*\n|\n)+)", documentation)[1])  # type: ignore[index]


def run(folder: Path, code: str, engine: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(code)
    (folder / "my_engine.py").write_text(engine)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    selected = ["-k", "checks.", "-p", "no:cacheprovider", "-q"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *selected],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_example_proves_an_engine(tmp_path: Path) -> None:
    engine = ENGINE.format(
        module="engines.sqlite.engine", maybe_async="async ", maybe_await="await "
    )
    result = run(tmp_path, example(conformance.__doc__ or ""), engine)
    assert result.returncode == 0, result.stdout
    assert re.search(r"\d\d passed", result.stdout)


def test_the_example_finds_a_broken_engine(tmp_path: Path) -> None:
    engine = ENGINE.format(
        module="engines.sqlite.engine", maybe_async="async ", maybe_await="await "
    )
    code = example(conformance.__doc__ or "").replace(
        "import MyEngine", "import Forgetful as MyEngine"
    )
    result = run(tmp_path, code, engine)
    assert result.returncode == 1
    assert "a_log_is_at_its_number_and_with_a_stamp_at_its_history" in result.stdout
    assert "expected Conflict, got Applied" in result.stdout


def test_the_example_proves_a_blocking_engine_behind_the_adapter(tmp_path: Path) -> None:
    engine = ENGINE.format(module="sync.engines.sqlite.engine", maybe_async="", maybe_await="")
    result = run(tmp_path, adapted(example(conformance.__doc__ or "")), engine)
    assert result.returncode == 0, result.stdout
    assert re.search(r"\d\d passed", result.stdout)


def test_the_adapter_hides_no_fault_of_a_blocking_engine(tmp_path: Path) -> None:
    engine = ENGINE.format(module="sync.engines.sqlite.engine", maybe_async="", maybe_await="")
    code = adapted(example(conformance.__doc__ or ""))
    result = run(tmp_path, code.replace("import MyEngine", "import Forgetful as MyEngine"), engine)
    assert result.returncode == 1
    assert "expected Conflict, got Applied" in result.stdout


def adapted(code: str) -> str:
    """The example as its last paragraph changes it for a blocking engine."""
    assert "AsyncOver(MyEngine(" in (conformance.__doc__ or "")
    changed = code.replace("MyEngine(tmp_path, world)", "AsyncOver(MyEngine(tmp_path, world))")
    assert changed != code
    return f"from stateward.testing.async_over import AsyncOver\n{changed}"
