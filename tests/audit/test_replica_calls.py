"""Each request of a workload names a function of the replica, with the arguments it takes."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import stateward.audit.workloads

FOLDER = Path(stateward.audit.workloads.__file__).parent
OWN = {"patience"}  # for the method that passes the request on, and not for the function
# To every function, by the process of the replica; and those of `Stage.at_once`.
GIVEN = {"memory", "tell"}
GIVEN_AT_ONCE = {"who", "begin"}


class ReplicaCall(NamedTuple):
    """A request in the source: where it stands, the function, and the arguments by name."""

    where: str
    function: str
    arguments: frozenset[str]
    is_at_once: bool
    is_whole: bool  # no `**` adds more arguments


def calls() -> list[ReplicaCall]:
    """Return every request to a replica that names its function as a literal."""
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
            (function, *_) = [n for n in names if re.fullmatch(r"[a-z_]+:\w+", str(n))] or [""]
            if function:
                arguments = frozenset(word.arg for word in node.keywords if word.arg)
                whole = all(word.arg for word in node.keywords)
                where, at_once = f"{path.name}:{node.lineno}", node.func.attr == "at_once"
                found.append(ReplicaCall(where, function, arguments, at_once, whole))
    return found


def target(function: str) -> Any:
    module, _, name = function.partition(":")
    return getattr(import_module(f"stateward.audit.workloads.{module}"), name)


def test_every_request_of_a_workload_can_be_carried_out() -> None:
    wrong = []
    asked = calls()
    assert len(asked) > 60
    for call in asked:
        parameters = inspect.signature(target(call.function)).parameters
        needed = {n for n, p in parameters.items() if p.default is p.empty} - GIVEN
        needed -= GIVEN_AT_ONCE if call.is_at_once else set()
        unknown = call.arguments - parameters.keys() - OWN
        missing = needed - call.arguments if call.is_whole else set()
        if unknown or missing:
            wrong.append((call.where, call.function, sorted(unknown), sorted(missing)))
    assert wrong == []
