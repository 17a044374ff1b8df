"""Nothing that is stored is unpickled: neither here nor, below a call of ours, in a dependency."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import stateward

PACKAGE = Path(stateward.__file__).parent
RUN_CODE = {"pickle", "_pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
READS_PICKLES = {"decode_checkpoint_value", "pickle_fallback"}  # of frameworks that adapters use


def mentions(tree: ast.AST) -> Iterator[str]:
    """Yield every module that a module imports, and every name it uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def test_no_module_reads_a_form_that_runs_code() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if "sync" not in path.parts]
    assert len(paths) > 300
    for path in paths:
        used = set(mentions(ast.parse(path.read_text())))
        assert used.isdisjoint(RUN_CODE | READS_PICKLES), path


def test_a_pickle_that_a_dependency_reads_for_us_fails_the_test() -> None:
    data = pickle.dumps(Path("x"))
    assert pickle.loads(data) == Path("x")  # the hook leaves others alone
    ours: dict[str, object] = {"loads": pickle.loads, "data": data}
    code = compile("loads(data)", str(PACKAGE / "state" / "handle.py"), "exec")
    with pytest.raises(AssertionError, match=r"read below .*handle\.py"):
        exec(code, ours)
