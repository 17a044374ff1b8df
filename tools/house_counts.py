"""Count what `tests/test_house.py` limits, package by package.

    python tools/house_counts.py           the tables CEILING, RIDDLES and DIALECT, to paste there
    python tools/house_counts.py engines   where the riddles and dialect names of a package stand

Counted is the hand-written Python below `src/stateward`: the blocking twins are generated.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "stateward"
GROWTH = 1.01  # room that a printed ceiling leaves for repairs

# Openings of a docstring that point at something the reader has not met yet.
RIDDLE = re.compile(
    r"(What|Whatever|Who|Whoever|Whose|Whom|Those|That|The same|One (that|who)|All (that|who)|"
    r"Only|Whether (it|they|what))\b"
)
# Participles and pronouns where a noun of the domain belongs.
DIALECT_NAMES = {"found", "said", "told", "it", "kept", "given", "known", "seen"}


class Module(NamedTuple):
    """One hand-written file: its path below the package without suffix, its lines and its tree."""

    name: str
    lines: int
    tree: ast.Module

    @property
    def package(self) -> str:
        """The first folder; files at the root count together, as "base"."""
        return self.name.split("/")[0] if "/" in self.name else "base"


@cache
def modules() -> tuple[Module, ...]:
    """Every hand-written module, sorted by path."""
    return tuple(
        Module(name, text.count("\n"), ast.parse(text))
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (name := path.relative_to(PACKAGE).with_suffix("").as_posix()).startswith("sync/")
        for text in (path.read_text("utf-8"),)
    )


def function_lengths() -> dict[str, int]:
    """Lines of every function with its docstring, by "module:name"."""
    return {
        f"{module.name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def lines() -> Counter[str]:
    """Lines of hand-written Python per package."""
    total: Counter[str] = Counter()
    for module in modules():
        total[module.package] += module.lines
    return total


def riddles() -> Counter[str]:
    """Docstrings per package that open with a riddle."""
    return Counter(module.package for module in modules() for _ in riddles_of(module))


def riddles_of(module: Module) -> Iterator[tuple[int, str]]:
    """Line and first line of each docstring that opens with a riddle."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if RIDDLE.match(text):
                yield getattr(node, "lineno", 1), text.splitlines()[0]


def dialect() -> Counter[str]:
    """Variables per package that are called by a participle or a pronoun."""
    return Counter(module.package for module in modules() for _ in dialect_of(module))


def dialect_of(module: Module) -> Iterator[tuple[int, str]]:
    """Line and name of each such variable where it is bound."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Store):
            continue
        if node.id in DIALECT_NAMES:
            yield node.lineno, node.id


def table(name: str, counts: Mapping[str, int]) -> str:
    """The Python source of one table."""
    rows = "".join(f'    "{package}": {count:_},\n' for package, count in sorted(counts.items()))
    return f"{name} = {{\n{rows}}}\n"


def main(argv: list[str]) -> int:
    if argv:
        for module in modules():
            if module.package in argv:
                for line, text in sorted([*riddles_of(module), *dialect_of(module)]):
                    print(f"src/stateward/{module.name}.py:{line}: {text}")
        return 0
    print(f"{sum(lines().values())} lines")
    print(table("CEILING", {name: int(count * GROWTH) for name, count in lines().items()}))
    print(table("RIDDLES", riddles()))
    print(table("DIALECT", dialect()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
