"""Who may import whom. The folder list is the architecture only while this holds."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import stateward
import stateward.sync

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "stateward"
ENGINE_NAMES = {"memory", "sqlite", "redis", "rediss", "postgres", "postgresql", "valkey"}


class Import(NamedTuple):
    """`module` imports `target`; `early`: as soon as it is imported itself."""

    module: str
    target: str
    early: bool
    line: int


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["stateward", *path.relative_to(PACKAGE).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


@cache
def imports() -> list[Import]:
    """Every import of the package's own modules, wherever it stands."""
    return [found for name, tree in trees().items() for found in imports_of(name, tree)]


def imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    early = {id(node) for statement in tree.body for node in run_at_import(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, id(node) in early, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                target = name if name in trees() else str(node.module)
                yield Import(module, target, id(node) in early, node.lineno)


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: no function's body, nothing for type checkers."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from run_at_import(child)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def forbidden(source: tuple[str, ...], target: tuple[str, ...]) -> list[Import]:
    return [i for i in imports() if within(i.module, *source) and within(i.target, *target)]


STATE = ("stateward.state", "stateward.sync.state")
LAYERS = ("stateward.layers", "stateward.sync.layers")
ENGINES = ("stateward.engines", "stateward.sync.engines")


def test_the_rules_are_tried_on_real_modules() -> None:
    for package in (*STATE, *LAYERS, *ENGINES, "stateward.sync", "stateward.cli"):
        assert [name for name in trees() if within(name, package)], package
    assert len(imports()) > 100


def test_state_imports_no_engine() -> None:
    assert forbidden(STATE, ENGINES) == []


def test_layers_import_no_state_and_no_engine() -> None:
    assert forbidden(LAYERS, (*STATE, *ENGINES)) == []


def test_engines_import_neither_state_nor_layers() -> None:
    assert forbidden(ENGINES, (*STATE, *LAYERS)) == []


def test_the_redis_client_knows_no_operation() -> None:
    """Commands, keys and replies: nothing of the engine above it, but the words of its failures."""
    client = ("stateward.engines.redis.client", "stateward.sync.engines.redis.client")
    known = (*client, "stateward.engines.redis.failures", "stateward.errors", "stateward.world")
    alone = ("stateward.engines.permits", "stateward.engines.transport")  # import nothing of ours
    assert forbidden(alone, ("stateward",)) == []
    assert [i.target for i in forbidden(client, client)]
    found = [i for i in forbidden(client, ("stateward",)) if not within(i.target, *known, *alone)]
    assert found == []
    words = forbidden(("stateward.engines.redis.failures",), ("stateward",))
    assert {i.target for i in words} == {"stateward.errors"}


def test_the_core_knows_no_command_and_no_test_tool() -> None:
    above = ("stateward.cli", "stateward.why", "stateward.audit", "stateward.benchmark")
    above = (*above, "stateward.server", "stateward.testing", "stateward.sync.testing")
    above = (*above, "stateward.mcp", "stateward.sync.why")
    found = [i for i in imports() if within(i.target, *above) and not within(i.module, *above)]
    assert [i for i in found if i.module != "stateward.__main__"] == []


def test_actions_know_no_interface() -> None:
    interfaces = ("stateward.server", "stateward.mcp", "stateward.cli")
    assert forbidden(("stateward.actions",), interfaces) == []
    assert forbidden(interfaces, ("stateward.actions",)) != []


# What every engine shares, and names none of them to whoever imports it.
COMMON = tuple(
    f"{room}.{module}" for room in ENGINES for module in ("registry", "url", "passthrough")
)


def test_only_engines_and_the_test_tools_name_an_engine_module() -> None:
    allowed = (*ENGINES, "stateward.testing", "stateward.sync.testing")
    named = [i for i in imports() if within(i.target, *ENGINES) and not within(i.module, *allowed)]
    assert [i for i in named if i.target not in COMMON] == []
    for module, tree in trees().items():
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        paths = [t for t in texts if isinstance(t, str) and within(t.partition(":")[0], *ENGINES)]
        assert within(module, *allowed) or paths == [], module


def test_no_code_asks_for_an_engines_name() -> None:
    """Behaviour differs through `Capabilities` alone."""
    for module, tree in trees().items():
        if within(module, *ENGINES):
            continue
        asked = [
            f"{module}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare | ast.MatchValue)
            for part in ast.walk(node)
            if isinstance(part, ast.Constant) and part.value in ENGINE_NAMES
        ]
        assert asked == []


def test_async_modules_do_not_import_the_blocking_half() -> None:
    """Engines reach for it when they are asked for a blocking one; commands are blocking.

    An integration is asked for both colours by its framework, and `stateward.sync` is an attribute
    of the package.
    """
    blocking = ("stateward.sync", "stateward.cli", "stateward.integrations")
    late = (*ENGINES, "stateward.testing")
    found = [i for i in imports() if within(i.target, "stateward.sync")]
    found = [i for i in found if not within(i.module, *blocking)]
    found = [i for i in found if i.early or i.module != "stateward"]
    assert [i for i in found if i.early or not within(i.module, *late)] == []


def test_the_blocking_half_awaits_nothing() -> None:
    blocking = [n for n in trees() if within(n, "stateward.sync") or n.endswith("_sync")]
    assert len(blocking) > 10
    for module in blocking:
        for node in ast.walk(trees()[module]):
            kinds = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
            assert not isinstance(node, kinds), f"{module}:{node.lineno}"
    assert [i for i in imports() if i.module in blocking and i.target == "asyncio"] == []


def test_modules_import_each_other_in_one_direction() -> None:
    graph: dict[str, set[str]] = {name: set() for name in trees()}
    for found in imports():
        if found.early and found.target in graph and found.target != found.module:
            graph[found.module].add(found.target)
    while graph:
        done = {name for name, targets in graph.items() if not targets & graph.keys()}
        assert done, f"these import each other: {sorted(graph)}"
        graph = {name: targets for name, targets in graph.items() if name not in done}


# --- what really gets imported ----------------------------------------------------------


def modules_after(code: str, cwd: Path) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=cwd,
    )
    return set(ran.stdout.split())


DRIVERS = {"apsw", "sqlite3", "redis", "psycopg", "asyncpg"}


def test_importing_stateward_imports_no_driver_no_engine_and_no_blocking_half(
    tmp_path: Path,
) -> None:
    loaded = modules_after("import stateward", tmp_path)
    assert "stateward.store" in loaded
    assert loaded & DRIVERS == set()
    unwanted = (*ENGINES, "stateward.sync", "stateward.cli", "stateward.testing")
    unwanted = (*unwanted, "stateward.integrations", "agents", "strands", "google", "faststream")
    found = {name for name in loaded if within(name, *unwanted)}
    assert found - {"stateward.engines", *COMMON} == set()
    assert loaded & {"pytest", "hypothesis", "argparse", "uvloop"} == set()


# What a conversation does not need: its first use imports it.
LATE = {"effects", "journals", "operations_log", "run", "schedules", "tasks", "workflows"}


@pytest.mark.parametrize("package", ["stateward", "stateward.sync"])
def test_what_few_programs_need_is_imported_when_it_is_asked_for(
    package: str, tmp_path: Path
) -> None:
    late = {f"{package}.state.{name}" for name in LATE}
    assert modules_after(f"import {package}", tmp_path) & late == set()
    assert modules_after(f"from {package} import *", tmp_path) >= late
    one = modules_after(f"import {package}; {package}.Journal; {package}.Journal", tmp_path)
    assert one & late == {f"{package}.state.journals"}


@pytest.mark.parametrize("module", [stateward, stateward.sync])
def test_every_public_name_is_listed_and_found(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert module.Workflow.__module__ == f"{module.__name__}.state.workflows"
    with pytest.raises(AttributeError, match="has no attribute 'Werkflow'"):
        module.Werkflow  # noqa: B018


def test_a_driver_is_imported_when_its_url_is_used(tmp_path: Path) -> None:
    memory = modules_after("import stateward; stateward.open('memory://')", tmp_path)
    assert memory & DRIVERS == set()
    file = modules_after("import stateward; stateward.open('sqlite:///agents.db')", tmp_path)
    assert "apsw" in file
    assert list(tmp_path.iterdir()) == []  # opening does no I/O


IMPORT_COST = """
from time import process_time
begun = process_time()
import asyncio, msgspec
between = process_time()
import stateward
print((process_time() - between) / (between - begun))
"""


def test_importing_stateward_is_quick() -> None:
    """It takes less work than `import asyncio, msgspec`, on any machine, busy or not."""
    command = [sys.executable, "-I", "-c", IMPORT_COST]
    shares = [float(subprocess.check_output(command, timeout=60)) for _ in range(5)]
    assert min(shares) <= 0.9, shares
