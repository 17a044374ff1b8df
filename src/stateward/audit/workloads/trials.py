"""Trials of promises: each compares what should be with what is, and keeps what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import msgspec

from stateward.audit.record import Check, Counterexample

KEPT = 3  # examples of what differs
SHOWN = 60  # characters of a text on each side of where it differs
LIMIT = 15.0  # seconds that a call of a trial may take


class OnPurpose(Exception):
    """What functions and blocks of a trial raise."""


class Trials:
    """What was tried of each promise. A call that fails is evidence like any other."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Any]] = {}

    def _of(self, promise: str) -> dict[str, Any]:
        empty: dict[str, Any] = {"promise": promise, "tried": 0, "differing": 0}
        return self._checks.setdefault(promise, empty | {"examples": [], "refused": []})

    def compare(self, promise: str, done: str, expected: Any, found: Any) -> bool:
        """Whether they are the same; if not, the single value that differs is kept."""
        differs = difference(expected, found)
        if differs is None:
            self._of(promise)["tried"] += 1
            return True
        where, one, other = differs
        if where:
            done += f": {where}" if where.startswith("the ") else f" at {where}"
        self.differ(promise, done, *shown(one, other))
        return False

    def differ(self, promise: str, done: str, expected: str, found: str) -> None:
        check = self._of(promise)
        check["tried"] += 1
        check["differing"] += 1
        if len(check["examples"]) < KEPT:
            example = {"done": done[:600], "expected": expected[:400], "found": found[:400]}
            check["examples"].append(example)

    def hold(self, promise: str, good: bool, done: str, expected: str, found: str) -> bool:
        """What need only be said in words."""
        if good:
            self._of(promise)["tried"] += 1
        else:
            self.differ(promise, done, expected, found)
        return good

    def refuse(self, promise: str, what: str, error: BaseException | str) -> None:
        """The memory said no, which is honest: it has not changed anything in silence."""
        check = self._of(promise)
        check["tried"] += 1
        check["refused"].append(f"{what}: {error if isinstance(error, str) else words(error)}")

    def plain(self) -> list[dict[str, Any]]:
        return list(self._checks.values())


def merged(*said: Iterable[dict[str, Any]] | Trials) -> list[Check]:
    """The trials of several replicas as one."""
    found: dict[str, dict[str, Any]] = {}
    for each in said:
        for check in each.plain() if isinstance(each, Trials) else each:
            whole = found.setdefault(
                check["promise"],
                {"promise": check["promise"], "tried": 0, "differing": 0}
                | {"examples": [], "refused": []},
            )
            whole["tried"] += check["tried"]
            whole["differing"] += check["differing"]
            whole["examples"] = (whole["examples"] + check["examples"])[:KEPT]
            whole["refused"] = list(dict.fromkeys(whole["refused"] + check["refused"]))
    return [
        Check(
            each["promise"],
            each["tried"],
            each["differing"],
            msgspec.convert(each["examples"], list[Counterexample]),
            each["refused"],
        )
        for each in found.values()
    ]


async def within(call: Awaitable[Any], seconds: float = LIMIT) -> Any:
    """What it returns; a call that hangs is an error like any other."""
    return await asyncio.wait_for(call, seconds)


async def noted(trials: Trials, promise: str, what: str, trying: Awaitable[None]) -> None:
    """One of several trials: if it cannot be carried out, that is what came of it."""
    try:
        await trying
    except Exception as error:
        trials.differ(promise, what, "it can be tried", words(error))


def words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def difference(expected: Any, found: Any, at: str = "") -> tuple[str, Any, Any] | None:
    """Where two values differ first, and what is there in each; None if they are the same.

    Types count, but for the two kinds of numbers: JSON has only one.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected:
            if key not in found:
                return f"{at}[{key!r}]", expected[key], MISSING
            inner = difference(expected[key], found[key], f"{at}[{key!r}]")
            if inner is not None:
                return inner
        more = [key for key in found if key not in expected]
        return (f"{at}[{more[0]!r}]", MISSING, found[more[0]]) if more else None
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            inner = difference(one, other, f"{at}[{number}]")
            if inner is not None:
                return inner
        if len(expected) != len(found):
            of = f" of {at}" if at else ""
            return f"the number of items{of}", len(expected), len(found)
        return None
    if _number(expected) and _number(found):
        return None if expected == found else (at, expected, found)
    same = type(expected) is type(found) and expected == found
    return None if same else (at, expected, found)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(expected: Any, found: Any) -> tuple[str, str]:
    """Both in words; of long texts what is around the first difference."""
    if isinstance(expected, str) and isinstance(found, str):
        first = next(
            (n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
            min(len(expected), len(found)),
        )
        return _around(expected, first), _around(found, first)
    return _short(expected), _short(found)


def _around(text: str, first: int) -> str:
    if len(text) <= 2 * SHOWN:
        return ascii(text) if not text.isprintable() else repr(text)
    part = text[max(0, first - SHOWN) : first + SHOWN]
    return f"{len(text):,} characters, of which from {max(0, first - SHOWN):,}: {part!a}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 200 else f"{said[:150]}… ({len(said):,} characters)"


def message_difference(expected: list[Any], found: list[Any]) -> tuple[str, Any, Any] | None:
    """The same for messages; a memory may give them its own fields, like a time or an id."""
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        given = other
        if isinstance(one, dict) and isinstance(other, dict):
            given = {key: other[key] for key in one if key in other}
        inner = difference(one, given, f"message {number + 1}")
        if inner is not None:
            return inner
    if len(expected) != len(found):
        return "the number of messages", len(expected), len(found)
    return None
