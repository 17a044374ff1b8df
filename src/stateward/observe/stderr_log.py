"""Warnings on standard error, for as long as the application logs nowhere.

Python itself would print the bare name of an event. In an outage every call fails: the first of a
kind is printed in full, and those that follow are counted and summed up every ten seconds.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable

from stateward.observe.log_text import fields_of, sentence

SECONDS = 10.0
NAMED = 3  # ids named in the sum of repeated lines

# What failed is raised too: that is left to those who configure a log.
RAISED = ("stateward.reads", "stateward.writes")
SUMMED = "memory_write_suppressed_again"  # a sum of those that are counted here

OVER = ("breaker_closed", "store_reached", "alarm_cleared")


class Repeats:
    """Records of one kind since the last line about them."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0
        self.ids: dict[str, None] = {}


class StderrLog(logging.Handler):
    """Sentences on standard error."""

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._repeats: dict[str, Repeats] = {}

    def emit(self, record: logging.LogRecord) -> None:
        event = record.getMessage()
        if event == SUMMED or (record.levelno < logging.ERROR and record.name in RAISED):
            return
        if is_configured(logging.getLogger(record.name)):
            return
        if event in OVER:
            self.flush()
        fields = fields_of(record)
        kind = fields.get("status") or fields.get("of") or fields.get("alarm")
        id_ = fields.get("thread_id") or fields.get("id")
        if not self._repeated(event if kind is None else f"{event} {kind}", id_):
            self._say(sentence(record))

    def count(self, event: str, id_: str) -> None:
        """Count one of many events for which no record was made."""
        self.acquire()
        try:
            if event in self._repeats:
                self._repeated(event, id_)
        finally:
            self.release()

    def flush(self) -> None:
        """Tell what was counted: the trouble is over, or the process ends."""
        self._sum_up_before(math.inf)

    def _repeated(self, kind: str, id_: str | None) -> bool:
        now = self.clock()
        repeats = self._repeats.get(kind)
        if repeats is None or (not repeats.count and now - repeats.since >= SECONDS):
            self._sum_up_before(now - SECONDS)
            self._repeats[kind] = Repeats(now)
            return False
        repeats.count += 1
        if id_ is not None:
            repeats.ids[id_] = None
        if now - repeats.since >= SECONDS:
            self._sum_up(kind, repeats)
        return True

    def _sum_up_before(self, moment: float) -> None:
        for kind, repeats in self._repeats.items():
            if repeats.count and repeats.since <= moment:
                self._sum_up(kind, repeats)

    def _sum_up(self, kind: str, repeats: Repeats) -> None:
        now = self.clock()
        ids = [repr(id_) for id_ in repeats.ids]
        of = f", of {len(ids)}: {', '.join(ids[:NAMED])}" if ids else ""
        more = ", …" if len(ids) > NAMED else ""
        self._say(f"{repeats.count} more in {now - repeats.since:.0f} s{of}{more}. [{kind}]")
        self._repeats[kind] = Repeats(now)

    def _say(self, line: str) -> None:
        if sys.stderr is not None:
            print(f"stateward: {line}", file=sys.stderr)


def is_configured(logger: logging.Logger | None) -> bool:
    """Return whether the application itself has configured where this is logged."""
    while logger is not None:
        if any(not isinstance(handler, StderrLog) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


DEFAULT_LOG = StderrLog(logging.WARNING)
