"""Trials of promises: each compares what should be with what is, and keeps what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from stateward.audit.differences import OWN, Hung, class_of_error, classify
from stateward.audit.differences import difference as difference
from stateward.audit.differences import message_difference as message_difference
from stateward.audit.record import Check

KEPT = 2  # examples of each class of difference
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
        return self._checks.setdefault(
            promise, empty | {"examples": [], "refused": [], "kinds": {}}
        )

    def add(self, check: dict[str, Any]) -> None:
        """Add what another replica tried of a promise."""
        own = self._of(check["promise"])
        own["tried"] += check["tried"]
        own["differing"] += check["differing"]
        for kind, count in check["kinds"].items():
            own["kinds"][kind] = own["kinds"].get(kind, 0) + count
        for example in check["examples"]:
            self._show(own, example)
        own["refused"] = list(dict.fromkeys(own["refused"] + check["refused"]))

    def _show(self, check: dict[str, Any], example: dict[str, str]) -> None:
        alike = [each for each in check["examples"] if each["kind"] == example["kind"]]
        if len(alike) < KEPT:
            check["examples"].append(example)

    def compare(
        self,
        promise: str,
        case: str,
        expected: Any,
        found: Any,
        *,
        kind: str | None = None,
        earlier: Iterable[Any] = (),
    ) -> bool:
        """Return True if both are the same; if not, store the first value that differs.

        Its class is `kind`, or follows from both values, and from those that were there earlier.
        """
        differs = difference(expected, found)
        if differs is None:
            self._of(promise)["tried"] += 1
            return True
        where, one, other = differs
        if where:
            case += f": {where}" if where.startswith("the ") else f" at {where}"
        if kind is None:
            kind = classify(expected, found, earlier=earlier)
        self.differ(promise, case, *shown(one, other), kind)
        return False

    def differ(
        self, promise: str, case: str, expected: str, found: str | BaseException, kind: str = OWN
    ) -> None:
        """Count a broken promise; `kind` is the class of difference, an error is its own."""
        if isinstance(found, BaseException):
            return self.differ(promise, case, expected, words(found), class_of_error(found))
        check = self._of(promise)
        check["tried"] += 1
        check["differing"] += 1
        check["kinds"][kind] = check["kinds"].get(kind, 0) + 1
        example = {"done": case[:600], "expected": expected[:400], "found": found[:400]}
        self._show(check, example | {"kind": kind})

    def hold(
        self, promise: str, good: bool, case: str, expected: str, found: str, kind: str = OWN
    ) -> bool:
        """Count a trial whose expectation and result are given in words."""
        if good:
            self._of(promise)["tried"] += 1
        else:
            self.differ(promise, case, expected, found, kind)
        return good

    @contextmanager
    def expecting(self, promise: str, case: str, expected: str) -> Iterator[None]:
        """Count an error that the block raises as evidence against the promise."""
        try:
            yield
        except Exception as error:
            self.differ(promise, case, expected, error)

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
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise Hung(f"no answer within {seconds:g} s")
        return task.result()
    finally:
        task.cancel()


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
