"""When a schedule is due: a cron expression in a time zone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import takewhile
from typing import Any

from stateward.errors import InvalidInput

HOUR = 3600.0


class Cron:
    """The ticks of one expression, as seconds since 1970.

    Daylight saving is handled as in Debian's cron. A tick at a fixed time that is skipped comes as
    soon as the clocks have been put forward; a tick whose time occurs twice comes the first time.
    With a `*` for the minute or the hour ticks follow real time: none in an hour that is skipped,
    and two sets in an hour that is repeated.
    """

    def __init__(self, expression: str, zone: str) -> None:
        self._parser = _parser()
        self._expression = expression
        self._zone = zone_of(zone)
        if not isinstance(expression, str):
            raise InvalidInput(f"a cron expression is a text, not {expression!r}")
        try:
            self._parser.CronSim(expression, datetime.fromtimestamp(0, UTC))
        except self._parser.CronSimError as error:
            raise InvalidInput(
                f"{expression!r} is not a cron expression ({str(error).lower()}): it has the "
                "fields minute, hour, day of month, month and day of week, e.g. '0 3 * * 1-5'"
            ) from error

    def ticks(self, after: float) -> Iterator[float]:
        """Yield all ticks after a moment, soonest first."""
        beginning = datetime.fromtimestamp(after, self._zone)
        for tick in self._parser.CronSim(self._expression, beginning):
            seconds = tick.timestamp()
            if seconds > after:  # a time that occurs twice is yielded once
                yield seconds
                after = seconds

    def after(self, moment: float) -> float:
        """Return the next tick."""
        for tick in self.ticks(moment):
            return tick
        raise InvalidInput(f"the cron expression {self._expression!r} has no tick in 50 years")

    def newest(self, count: int, after: float, before: float) -> list[float]:
        """Return the last `count` ticks between two moments, without computing many more."""
        span = HOUR
        while True:
            begin = max(after, before - span)
            between = takewhile(lambda tick: tick < before, self.ticks(begin))
            newest = deque(between, maxlen=count)
            if len(newest) == count or begin == after:
                return list(newest)
            span *= 4


def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # for schedules only

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise InvalidInput(
            f"no time zone {name!r} is known here; use a name such as 'Europe/Berlin', and where "
            "the system has no time zones, install the package tzdata"
        ) from error


def _parser() -> Any:
    try:
        import cronsim
    except ImportError as error:
        raise InvalidInput("schedules need their extra: pip install 'stateward[cron]'") from error
    return cronsim
