"""The places in a log that a replay remembers: its end, and what was searched. No I/O."""

from __future__ import annotations

from typing import Any, NamedTuple

from stateward.ops import Value


class Searched(NamedTuple):
    """Entries of a thread in one of its lives, among which a turn is not."""

    life: int
    low: int
    high: int


class LogEnd(NamedTuple):
    """The end of a log as it was last seen: what was written before `newest` comes late there."""

    version: int
    stamp: str | None
    newest: float  # by this machine's clock
    marks: list[dict[str, Any]]
    asked: Value | None = None  # the questions that wait, where a record's may be among them
