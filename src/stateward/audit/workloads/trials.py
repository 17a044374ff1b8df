"""Trials of promises: each compares what should be with what is, and keeps what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from stateward.audit.record import Check

KEPT = 3  # examples of what differs
SHOWN = 60  # characters of a text on each side of where it differs
LIMIT = 15.0  # seconds that a call of a trial may take


class OnPurpose(Exception):
    """Error that functions and blocks of a trial raise."""


class Trials:
    """Trials of each promise. A call that fails is evidence like any other."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Any]] = {}

    def _of(self, promise: str) -> dict[str, Any]:
        empty: dict[str, Any] = {"promise": promise, "tried": 0, "differing": 0}
        return self._checks.setdefault(promise, empty | {"examples": [], "refused": []})

    def add(self, check: dict[str, Any]) -> None:
        """Add what another replica tried of a promise."""
        own = self._of(check["promise"])
        own["tried"] += check["tried"]
        own["differing"] += check["differing"]
        own["examples"] = (own["examples"] + check["examples"])[:KEPT]
        own["refused"] = list(dict.fromkeys(own["refused"] + check["refused"]))

    def compare(self, promise: str, case: str, expected: Any, found: Any) -> bool:
        """Return True if both are the same; if not, store the first value that differs."""
        differs = difference(expected, found)
        if differs is None:
            self._of(promise)["tried"] += 1
            return True
        where, one, other = differs
        if where:
            case += f": {where}" if where.startswith("the ") else f" at {where}"
        self.differ(promise, case, *shown(one, other))
        return False

    def differ(self, promise: str, case: str, expected: str, found: str) -> None:
        check = self._of(promise)
        check["tried"] += 1
        check["differing"] += 1
        if len(check["examples"]) < KEPT:
            example = {"done": case[:600], "expected": expected[:400], "found": found[:400]}
            check["examples"].append(example)

    def hold(self, promise: str, good: bool, case: str, expected: str, found: str) -> bool:
        """Count a trial whose expectation and result are given in words."""
        if good:
            self._of(promise)["tried"] += 1
        else:
            self.differ(promise, case, expected, found)
        return good

    @contextmanager
    def expecting(self, promise: str, case: str, expected: str) -> Iterator[None]:
        """Count an error that the block raises as evidence against the promise."""
        try:
            yield
        except Exception as error:
            self.differ(promise, case, expected, words(error))

    def refuse(self, promise: str, what: str, error: BaseException | str) -> None:
        """Note a refusal, which is honest: the memory has not changed anything in silence."""
        check = self._of(promise)
        check["tried"] += 1
        check["refused"].append(f"{what}: {error if isinstance(error, str) else words(error)}")

    def plain(self) -> list[dict[str, Any]]:
        return list(self._checks.values())


def merged(*answers: Iterable[dict[str, Any]] | Trials) -> list[Check]:
    """Return the trials of several replicas as one."""
    whole = Trials()
    for each in answers:
        for check in each.plain() if isinstance(each, Trials) else each:
            whole.add(check)
    return msgspec.convert(whole.plain(), list[Check])


async def within(call: Awaitable[Any], seconds: float = LIMIT) -> Any:
    """Await a call; one that hangs is an error like any other."""
    return await asyncio.wait_for(call, seconds)


async def outcome(call: Awaitable[Any]) -> dict[str, Any]:
    """Await a call, and return its result and its error, one of which is None."""
    try:
        return {"result": await call, "error": None}
    except Exception as error:
        return {"result": None, "error": words(error)}


async def try_one(trials: Trials, promise: str, what: str, trying: Awaitable[None]) -> None:
    """Try one of several trials; an exception counts as its result."""
    with trials.expecting(promise, what, "it can be tried"):
        await trying


def words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def difference(expected: Any, actual: Any, at: str = "") -> tuple[str, Any, Any] | None:
    """Return where two values first differ, and both values there; None if they are equal.

    Types count, but for the two kinds of numbers: JSON has only one.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key not in actual:
                return f"{at}[{key!r}]", expected[key], MISSING
            inner = difference(expected[key], actual[key], f"{at}[{key!r}]")
            if inner is not None:
                return inner
        more = [key for key in actual if key not in expected]
        return (f"{at}[{more[0]!r}]", MISSING, actual[more[0]]) if more else None
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
            inner = difference(one, other, f"{at}[{number}]")
            if inner is not None:
                return inner
        if len(expected) != len(actual):
            of = f" of {at}" if at else ""
            return f"the number of items{of}", len(expected), len(actual)
        return None
    if _number(expected) and _number(actual):
        return None if expected == actual else (at, expected, actual)
    same = type(expected) is type(actual) and expected == actual
    return None if same else (at, expected, actual)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(expected: Any, actual: Any) -> tuple[str, str]:
    """Return both values in words; of long texts the part around the first difference."""
    if isinstance(expected, str) and isinstance(actual, str):
        first = next(
            (n for n, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b),
            min(len(expected), len(actual)),
        )
        return _around(expected, first), _around(actual, first)
    return _short(expected), _short(actual)


def _around(text: str, first: int) -> str:
    if len(text) <= 2 * SHOWN:
        return ascii(text) if not text.isprintable() else repr(text)
    part = text[max(0, first - SHOWN) : first + SHOWN]
    return f"{len(text):,} characters, of which from {max(0, first - SHOWN):,}: {part!a}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:150]}… ({len(text):,} characters)"


def message_difference(expected: list[Any], actual: list[Any]) -> tuple[str, Any, Any] | None:
    """Compare messages; a memory may add its own fields, like a time or an id."""
    for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
        shared = other
        if isinstance(one, dict) and isinstance(other, dict):
            shared = {key: other[key] for key in one if key in other}
        inner = difference(one, shared, f"message {number + 1}")
        if inner is not None:
            return inner
    if len(expected) != len(actual):
        return "the number of messages", len(expected), len(actual)
    return None
