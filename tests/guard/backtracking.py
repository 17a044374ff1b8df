"""What a regular expression looks at, counted: steps of a matcher that goes back as Python's does.

Python's own cannot be counted. This one runs the same parse, tries the same ways in the same
order, and finds the same places, which whoever uses it can compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

LARGE = 50  # a repeat that may come more often is one to grow
IS_WORD = re.compile(r"\w").fullmatch
CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
EXAMPLES = "a1 A.:-/é\n\"'{}[]@=\\*<>#"
Test = Callable[[str], bool]


class TooMany(Exception):
    """The steps are more than allowed."""


class Matcher:
    """A pattern, and the steps that were taken with it."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        text = pattern.pattern
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        self._ignore = bool(pattern.flags & re.IGNORECASE)
        self._lines = bool(pattern.flags & re.MULTILINE)
        self._all = bool(pattern.flags & re.DOTALL)
        self.tree = parser.parse(text, pattern.flags & ~re.UNICODE)
        self._program = self._compiled(self.tree)
        self.steps = 0
        self.most = 0  # 0: as many as it takes

    def spans(self, text: str, *, anchored: bool = False) -> Iterator[tuple[int, int]]:
        """Where `finditer` finds it; anchored, only at the beginning."""
        start, barred = 0, -1
        while start <= len(text):
            end = self._run(self._program, text, start, barred)
            if end is not None:
                yield start, end
                barred = end if end == start else -1  # no empty one in the same place twice
                start = end
            else:
                start, barred = start + 1, -1
            if anchored:
                return

    # The program is a list of tuples; of the two ways of a "split" the first is tried first.

    def _compiled(self, tree: Any) -> list[tuple[Any, ...]]:
        program: list[tuple[Any, ...]] = []
        self._emit(tree, program)
        program.append(("end",))
        return program

    def _emit(self, tree: Any, program: list[tuple[Any, ...]]) -> None:
        for op, given in tree:
            if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
                program.append(("char", self.test(op, given)))
            elif op is sre.SUBPATTERN:
                assert (given[1], given[2]) == (0, 0), "flags of a group alone are not known here"
                self._emit(given[3], program)
            elif op is sre.BRANCH:
                ends = []
                for branch in given[1]:
                    split = len(program)
                    program.append(())
                    self._emit(branch, program)
                    ends.append(len(program))
                    program.append(())
                    program[split] = ("split", split + 1, len(program))
                program.append(("fail",))
                for end in ends:
                    program[end] = ("jump", len(program))
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                self._emit_repeat(*given, op is sre.MIN_REPEAT, program)
            elif op in (sre.ATOMIC_GROUP, sre.POSSESSIVE_REPEAT):
                inner = given if op is sre.ATOMIC_GROUP else [(sre.MAX_REPEAT, given)]
                program.append(("atomic", self._compiled(inner)))
            elif op in (sre.ASSERT, sre.ASSERT_NOT):
                direction, inner = given
                width = inner.getwidth()[1] if direction < 0 else 0
                program.append(("look", self._compiled(inner), width, op is sre.ASSERT))
            elif op is sre.AT:
                program.append(("at", given))
            else:
                raise NotImplementedError(op)

    def _emit_repeat(
        self, least: int, most: int, body: Any, lazy: bool, program: list[tuple[Any, ...]]
    ) -> None:
        for _ in range(least):
            self._emit(body, program)
        if most == sre.MAXREPEAT:
            split = len(program)
            program.append(())
            program.append(("mark", split))
            self._emit(body, program)
            program.append(("moved", split))
            program.append(("jump", split))
            self._split(program, split, len(program), lazy)
            return
        splits = []
        for _ in range(most - least):
            splits.append(len(program))
            program.append(())
            self._emit(body, program)
        for split in splits:
            self._split(program, split, len(program), lazy)

    def _split(self, program: list[tuple[Any, ...]], at: int, out: int, lazy: bool) -> None:
        program[at] = ("split", out, at + 1) if lazy else ("split", at + 1, out)

    def test(self, op: Any, given: Any) -> Test:
        """Whether a character is one of those."""
        if op is sre.ANY:
            return lambda char: self._all or char != "\n"
        if op is not sre.IN:
            return cache(lambda char: self._is(char, op, given))
        negated = given[0][0] is sre.NEGATE
        items = given[1:] if negated else given
        return cache(lambda char: any(self._is(char, *item) for item in items) is not negated)

    def _is(self, char: str, op: Any, given: Any) -> bool:
        if op is sre.CATEGORY:
            return re.fullmatch(CATEGORIES[given], char) is not None
        chars = {char, char.lower(), char.upper()} if self._ignore else {char}
        if op is sre.RANGE:
            return any(given[0] <= ord(each) <= given[1] for each in chars if len(each) == 1)
        return (chr(given) in chars) is (op is sre.LITERAL)

    def _run(self, program: list[tuple[Any, ...]], text: str, at: int, barred: int) -> int | None:
        ways: list[tuple[int, int, dict[int, int]]] = [(0, at, {})]
        while ways:
            place, at, marks = ways.pop()
            while True:
                self.steps += 1
                if self.steps == self.most:
                    raise TooMany
                word, *given = program[place]
                place += 1
                if word == "char":
                    if at == len(text) or not given[0](text[at]):
                        break
                    at += 1
                elif word == "split":
                    ways.append((given[1], at, marks))
                    place = given[0]
                elif word == "jump":
                    place = given[0]
                elif word == "mark":
                    marks = marks | {given[0]: at}
                elif word == "moved":
                    if marks[given[0]] == at:
                        place += 1  # out of the loop, which would not end
                elif word == "at":
                    if not self._is_at(given[0], text, at):
                        break
                elif word == "atomic":
                    end = self._run(given[0], text, at, -1)
                    if end is None:
                        break
                    at = end
                elif word == "look":
                    inner, width, wanted = given
                    found = at >= width and self._run(inner, text, at - width, -1) is not None
                    if found is not wanted:
                        break
                elif word == "end":
                    if at == barred:
                        break
                    return at
                else:
                    break
        return None

    def _is_at(self, where: Any, text: str, at: int) -> bool:
        if where in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY):
            before, after = text[at - 1 : at] if at else "", text[at : at + 1]
            edge = bool(IS_WORD(before)) is not bool(IS_WORD(after))
            return edge is (where is sre.AT_BOUNDARY)
        if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            lines = self._lines and where is sre.AT_BEGINNING
            return at == 0 or (lines and text[at - 1] == "\n")
        rest = text[at:] if where is sre.AT_END_STRING or len(text) - at < 2 else text[at : at + 2]
        if where is sre.AT_END_STRING:
            return not rest
        return rest in ("", "\n") or (self._lines and rest[0] == "\n")


# --- what a pattern is fed with ---------------------------------------------------------


def hostile(matcher: Matcher) -> Iterator[tuple[str, str, str]]:
    """A beginning, what is repeated and an end, from what the pattern itself looks for."""
    words: dict[str, None] = {}
    beginnings: dict[str, None] = {"": None}
    _collect(matcher, matcher.tree, "", words, beginnings)
    chars = dict.fromkeys(char for char in "".join([*words, *beginnings]))
    for word in dict.fromkeys([*chars, *words]):
        for beginning in beginnings:
            for end in ("", "\0"):
                yield beginning, word, end
    for beginning in beginnings:
        yield "", beginning or "a", ""
        yield "", beginning + " ", ""
    few = list(chars)[:6]
    for one in few:
        for other in few:
            yield "", one + other, "\0"


def _collect(
    matcher: Matcher, tree: Any, before: str, words: dict[str, None], beginnings: dict[str, None]
) -> str:
    """Words that repeats in this may repeat, and what leads to each; returns what passes it."""
    for op, given in tree:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            test = matcher.test(op, given)
            literals = [chr(given)] if op is sre.LITERAL else []
            if op is sre.IN:
                literals += [chr(each[1]) for each in given if each[0] is sre.LITERAL]
                literals += [chr(each[1][0]) for each in given if each[0] is sre.RANGE]
            fitting = [char for char in (*literals, *EXAMPLES) if test(char)]
            words.update(dict.fromkeys(fitting[:3]))
            before += fitting[0] if fitting else ""
        elif op is sre.SUBPATTERN:
            before = _collect(matcher, given[3], before, words, beginnings)
        elif op is sre.BRANCH:
            beginnings[before] = None
            passed = [_collect(matcher, each, before, words, beginnings) for each in given[1]]
            before = passed[0]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, body = given
            once = _collect(matcher, body, before, words, beginnings)[len(before) :]
            if most > LARGE:
                beginnings[before] = None
                words[once] = None
            before += once * least
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            _collect(matcher, given[1], before, words, beginnings)
        elif op is sre.ATOMIC_GROUP:
            before = _collect(matcher, given, before, words, beginnings)
    words.pop("", None)
    return before
