"""Small changes of a program, one at a time: of Python, Lua and SQL.

Python is changed where its syntax tree says, Lua and SQL where their words say. Every change is a
piece of a file's text replaced by another, on one line or several that end where a statement ends.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """One change: in `path`, the text from `start` to `end` becomes `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        assert text[self.start : self.end] == self.old, f"{self.path} is not the file it was"
        return text[: self.start] + self.new + text[self.end :]

    def describe(self, text: str) -> tuple[str, str]:
        """Return the changed line, as it was and as it is, without indentation and comment."""
        first = text.rfind("\n", 0, self.start) + 1
        last = (text + "\n").find("\n", self.end)
        changed = text[first : self.start] + self.new + text[self.end : last]
        return _one_line(text[first:last]), _one_line(changed)


def _one_line(text: str) -> str:
    return " ".join(re.sub(r"  # .*", "", text).split())


def mutations_of(path: str, text: str) -> list[Mutation]:
    """Return every mutation of a file, in the order of its text."""
    made = {".py": _python, ".lua": _lua, ".sql": _sql}[Path(path).suffix](text)
    return [
        Mutation(path, text.count("\n", 0, start) + 1, start, end, text[start:end], new)
        for start, end, new in sorted(made)
    ]


Change = tuple[int, int, str]

# --- Python ----------------------------------------------------------------------------

FLIPPED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
REMOVABLE = (ast.Assign, ast.AugAssign, ast.Delete, ast.Continue, ast.Break)
# A module's own statements are imports and tables: to change them changes no decision.
PASSED_OVER = (ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.AnnAssign)
ASSERTED = {"strict"}  # arguments that assert something and change no answer


def _python(text: str) -> Iterator[Change]:
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line.encode()))
    raw = text.encode()

    def at(line: int, column: int) -> int:
        return len(raw[: lines[line - 1] + column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Change]:
        start, end = span(left)[1], span(right)[0]
        found = re.search(rf"(?<!\w){re.escape(old)}(?!\w)", text[start:end])
        if found:
            yield start + found.start(), start + found.end(), new

    for node in _within_functions(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                yield from between(left, right, *FLIPPED[type(operator)])
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from between(left, right, old, new)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            old, new = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            if not isinstance(node.left, ast.Constant) or isinstance(node.left.value, int):
                yield from between(node.left, node.right, old, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield span(node)[0], span(node.operand)[0], ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield *span(node), str(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield *span(node), repr(node.value + 1)
            yield *span(node), f"({node.value - 1!r})"
        elif isinstance(node, REMOVABLE) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
        ):
            yield *span(node), "pass"
        elif isinstance(node, ast.If | ast.While):
            yield *span(node.test), f"not ({text[slice(*span(node.test))]})"


def _within_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk over what functions do, without annotations, defaults and what only raises."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                yield from _walk(statement)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (*PASSED_OVER, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    if isinstance(node, ast.keyword) and node.arg in ASSERTED:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


# --- Lua and SQL -----------------------------------------------------------------------

Words = tuple[tuple[str, str], ...]
LUA: Words = (
    (r"==", "~="),
    (r"~=", "=="),
    (r"(?<![<>~=])<(?!=)", "<="),
    (r"<=", "<"),
    (r"(?<![<>~=-])>(?!=)", ">="),
    (r">=", ">"),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bnot ", ""),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"'(?:GT|LT|NX|XX)'", "'CH'"),
)
LUA_STATEMENT = re.compile(
    r"^ *+(?:(?:redis\.)?p?call\(.*\)|(?!local\b|for\b|if\b)[\w.\[\], ]+ = .*)$"
)
SQL: Words = (
    (r"(?<![<>:!|=])=(?![>=])", "<>"),
    (r"<>", "="),
    (r"(?<![<-])<(?![=>@<])", "<="),
    (r"<=", "<"),
    (r"(?<![<>=-])>(?![=>])", ">="),
    (r"(?<!-)>=", ">"),
    (r"\bAND\b", "OR"),
    (r"\bOR\b(?! FAIL| REPLACE)", "AND"),
    (r"\bNOT (?!NULL|DISTINCT|FOUND)", ""),
    (r"\bIS NULL\b", "IS NOT NULL"),
    (r"\bIS NOT NULL\b", "IS NULL"),
    (r"\bIS DISTINCT FROM\b", "IS NOT DISTINCT FROM"),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"\bDESC\b", "ASC"),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bleast\(", "greatest("),
    (r"\bgreatest\(", "least("),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    # Columns of the same type.
    (r"\bversion\b", "base"),
    (r"\bbase\b", "version"),
    (r"\bcommits\b", "live"),
    (r"\blive\b", "commits"),
    (r"\bcreated\b", "updated"),
    (r"\bupdated\b", "created"),
    (r"\bstatus\b", "label"),
    (r"\blabel\b", "status"),
    (r"\bdue\b", "expires"),
    (r"\bexpires\b", "due"),
    (r"\bstamp\b", "base_stamp"),
    (r"\blife\b", "version"),
    (r"\bgranted\b", "until"),
    (r"\bdropped\b", "updated"),
)
# A line of its own: an assignment of PL/pgSQL, a PERFORM, a condition that is one of several.
SQL_STATEMENT = re.compile(r"^ *+(?:[\w.]+ := .*;|PERFORM .*;|(?:AND|OR) (?!.*\bCASE\b)[^()]*)$")
NUMBER = re.compile(r"(?<![\w.%?:$])(?<!SELECT )\d+(?![\w.])")  # SELECT 1: EXISTS wants no value
LUA_COMMENT = re.compile(r"--(?!include).*")
SQL_COMMENT = re.compile(r"--.*")
STRING = re.compile(r"'[^'\n]*'")
# What makes tables and indexes: rows look the same, whatever order their columns are in.
DEFINITION = re.compile(
    r"^CREATE (?:TABLE|UNIQUE INDEX|INDEX|VIEW).*?;$|^GRANT.*?;$|^DROP .*?;$", re.M | re.S
)


def _lua(text: str) -> Iterator[Change]:
    return _by_words(text, LUA, LUA_STATEMENT, LUA_COMMENT)


def _sql(text: str) -> Iterator[Change]:
    return _by_words(text, SQL, SQL_STATEMENT, SQL_COMMENT)


def _by_words(
    text: str, words: Words, statement: re.Pattern[str], comment: re.Pattern[str]
) -> Iterator[Change]:
    plain = comment.sub(lambda found: " " * len(found[0]), text)
    definitions = [found.span() for found in DEFINITION.finditer(plain)]
    quoted = [found.span() for found in STRING.finditer(plain)]

    def inside(place: int, spans: list[tuple[int, int]]) -> bool:
        return any(start <= place < end for start, end in spans)

    for pattern, new in words:
        for found in re.finditer(pattern, plain):
            literal = pattern.startswith("'")
            if not inside(found.start(), definitions) and (
                literal or not inside(found.start(), quoted)
            ):
                yield *found.span(), new
    for found in NUMBER.finditer(plain):
        if not inside(found.start(), quoted) and not inside(found.start(), definitions):
            yield *found.span(), str(int(found[0]) + 1)
            yield *found.span(), str(int(found[0]) - 1)
    start = 0
    for line in plain.splitlines(keepends=True):
        body = line.rstrip()
        if statement.match(body) and not inside(start, definitions):
            yield start, start + len(body), ""
        start += len(line)
