"""Classes of difference between what should be and what is: sentences claim no more than these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

OWN = ""  # what the promise itself says, as the trial knows
MISSING, SURPLUS, REORDERED, ALTERED = "missing", "surplus", "reordered", "altered"
STALE, FOREIGN, SPLIT = "stale", "foreign", "split"
ERROR, LATE = "error", "late"
# Of work: it ran again, it did not run, or it ran and its result is another.
AGAIN, NEVER, RESULT = "again", "never", "result"
TOLD = "told"  # an acknowledgement of what was not done
ALIKE = 200  # unmatched items that are still compared one by one


class Hung(TimeoutError):
    """Error of a call that the audit gave up."""


def class_of_error(error: BaseException) -> str:
    return LATE if isinstance(error, Hung) else ERROR


def class_of_work(error: str | None, ran: int, expected: int) -> str:
    """Return the class of work that ended in this error, or ran so often."""
    if error:
        return LATE if "did not finish" in error else ERROR
    return AGAIN if ran > expected else NEVER if ran < expected else RESULT


def classify(
    expected: Any, actual: Any, *, earlier: Iterable[Any] = (), stored: Sequence[Any] = ()
) -> str:
    """Return the class of difference between two values that are not the same.

    `earlier` are states that were replaced, `stored` all items of which some are expected.
    """
    if any(difference(each, actual) is None for each in earlier):
        return STALE
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _of_items(expected, actual, stored)
    if _is_number(expected) and _is_number(actual):
        return MISSING if actual < expected else SURPLUS
    if not _is_empty(expected) and _is_empty(actual):
        return MISSING
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = expected.keys() & actual.keys()
        if all(difference(expected[name], actual[name]) is None for name in names):
            if names == expected.keys():
                return SURPLUS
            return MISSING if names == actual.keys() else ALTERED
    return SURPLUS if _is_empty(expected) else ALTERED


def _of_items(expected: Sequence[Any], actual: Sequence[Any], stored: Sequence[Any]) -> str:
    missing, surplus = _unmatched(expected, actual)
    if missing and len(missing) == len(surplus):
        # An item that belongs to another place is none that was changed.
        every = stored or expected
        return ALTERED if len(_unmatched(every, surplus)[0]) == len(every) else MISSING
    if missing:
        return MISSING
    return SURPLUS if surplus else REORDERED


def _unmatched(expected: Sequence[Any], actual: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what has no counterpart in the other, each counterpart counted once."""
    names = {key for each in expected if isinstance(each, dict) for key in each}
    left: dict[str, list[Any]] = {}
    for each in actual:
        left.setdefault(_canonical(each, names), []).append(each)
    missing = []
    for each in expected:
        same = left.get(_canonical(each, names))
        if same:
            same.pop()
        else:
            missing.append(each)
    surplus = [each for some in left.values() for each in some]
    if len(missing) * len(surplus) <= ALIKE**2:
        for one in list(missing):
            other = next((a for a in surplus if _is_the_same(one, a)), None)
            if other is not None:
                missing.remove(one)
                surplus.remove(other)
    return missing, surplus


def _canonical(value: Any, names: set[str]) -> str:
    if isinstance(value, dict):
        value = {key: value[key] for key in value if key in names}
    return json.dumps(value, sort_keys=True, default=repr)


def _is_the_same(one: Any, other: Any) -> bool:
    return message_difference([one], [other]) is None


def _is_empty(value: Any) -> bool:
    return value is None or value is NOTHING or value in ({}, [], "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def difference(expected: Any, actual: Any, at: str = "") -> tuple[str, Any, Any] | None:
    """Return where two values first differ, and both values there; None if they are equal.

    Types count, but for the two kinds of numbers: JSON has only one.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key not in actual:
                return f"{at}[{key!r}]", expected[key], NOTHING
            inner = difference(expected[key], actual[key], f"{at}[{key!r}]")
            if inner is not None:
                return inner
        more = [key for key in actual if key not in expected]
        return (f"{at}[{more[0]!r}]", NOTHING, actual[more[0]]) if more else None
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
            inner = difference(one, other, f"{at}[{number}]")
            if inner is not None:
                return inner
        if len(expected) != len(actual):
            of = f" of {at}" if at else ""
            return f"the number of items{of}", len(expected), len(actual)
        return None
    if _is_number(expected) and _is_number(actual):
        return None if expected == actual else (at, expected, actual)
    same = type(expected) is type(actual) and expected == actual
    return None if same else (at, expected, actual)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Missing()


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
