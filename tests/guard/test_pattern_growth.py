"""No regular expression takes the square of what it is fed with: counted, not timed.

Every pattern of the package is found in its source, so that a new one cannot be forgotten; those
of the repeats, whose texts are bounded, are looked at in `test_growth.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guard.backtracking import Matcher, TooMany, hostile

import stateward

PACKAGE = Path(stateward.__file__).parent
LOOK, SHORT, LONG = 80, 200, 2_000  # at the first it shows whether more is to be counted
FEW = 12  # steps a character: the square would be forty
LINEAR = 15
MOST = 500_000  # of the short length: what takes even more need not be waited for
ANCHORED = {"match", "fullmatch"}
# Made of our own words at the start, never of what somebody sent.
OF_OUR_OWN = {
    "engines/redis/scripts.py": "of the scripts in the package",
    "server/dashboard.py": "of the page's files in the package",
    "audit/questions/settings.py": "of a table of ours",
}
# Made of what is known when it runs.
MADE = {
    "audit/forms/redaction.py": 1,  # of the names of hosts, each escaped
    "engines/redis/scripts.py": 1,
    "audit/questions/settings.py": 1,
    "transfer/moves/mover.py": 1,  # the operator's own, for their own names
}


class Use:
    """A call of `re` in the source."""

    def __init__(self, path: str, call: ast.Call, name: str, source: str) -> None:
        self.path, self.name = path, name
        assert isinstance(call.func, ast.Attribute)
        self.method = call.func.attr
        self.flags = 0
        for given in ast.walk(ast.Tuple([*call.args[1:], *(k.value for k in call.keywords)])):
            if isinstance(given, ast.Attribute):
                self.flags |= int(getattr(re, given.attr, 0))
        self.text = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        used = set(re.findall(rf"\b{re.escape(name)}\.(\w+)", source)) if name else {self.method}
        self.anchored = bool(used) and used <= ANCHORED

    def __repr__(self) -> str:
        return f"{self.path}: {self.text!r}"

    @property
    def pattern(self) -> re.Pattern[Any]:
        return re.compile(self.text, self.flags)


def uses() -> Iterator[Use]:
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if path.startswith(("sync/", "repeats/")):
            continue
        source = file.read_text("utf-8")
        if "\nimport re\n" not in source:
            continue
        tree = ast.parse(source)
        names: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                names[node.value] = getattr(target, "id", "")
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr not in ("escape", "error")
            ):
                yield Use(path, node, names.get(node, ""), source)


USES = list(uses())
FED = [use for use in USES if use.text is not None and use.path not in OF_OUR_OWN]


def test_every_pattern_that_is_made_as_it_runs_is_known() -> None:
    made: dict[str, int] = {}
    for use in USES:
        if use.text is None:
            made[use.path] = made.get(use.path, 0) + 1
    assert made == MADE
    assert {use.path for use in USES} >= OF_OUR_OWN.keys()


@pytest.mark.parametrize("use", FED, ids=repr)
def test_a_pattern_looks_at_each_character_a_few_times(use: Use) -> None:
    matcher = Matcher(use.pattern)
    for beginning, word, end in hostile(matcher):
        look, short, long = (beginning + word * (n // len(word)) + end for n in (LOOK, SHORT, LONG))
        few = FEW * len(look)
        if steps(matcher, look, use.anchored, few) == few:
            cost = steps(matcher, short, use.anchored, MOST)
            assert cost < MOST, (beginning, word, end)
            most = LINEAR * cost
            assert steps(matcher, long, use.anchored, most) < most, (beginning, word, end)


def steps(matcher: Matcher, text: str, anchored: bool, most: int = 0) -> int:
    matcher.steps, matcher.most = 0, most
    try:
        for _ in matcher.spans(text, anchored=anchored):
            pass
    except TooMany:
        return most
    return matcher.steps


@pytest.mark.parametrize("use", FED, ids=repr)
def test_what_counts_the_steps_finds_what_the_pattern_finds(use: Use) -> None:
    pattern = use.pattern
    matcher = Matcher(pattern)
    for beginning, word, end in hostile(matcher):
        text = beginning + word * 3 + end
        as_given: Any = text
        if isinstance(pattern.pattern, bytes):
            if not text.isascii():
                continue
            as_given = text.encode()
        found = [match.span() for match in pattern.finditer(as_given)]
        matcher.steps = matcher.most = 0
        assert list(matcher.spans(text)) == found, text


@pytest.mark.parametrize(
    "text", [r"\w+@", r"(?:a+)+b", r"\[[a:]*:[a:]*\]", r"a.*b", r"(?:a|a)*$", r"(?=[a-z]*:)a"]
)
def test_one_that_takes_the_square_is_found(text: str) -> None:
    use = Use("", ast.parse(f"re.search({text!r})").body[0].value, "", "")  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        test_a_pattern_looks_at_each_character_a_few_times(use)
