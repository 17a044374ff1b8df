"""Alarms on outages: raised once single failures add up, cleared once, with a notification."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import encode as encode_json

from stateward.codec import MOST, shown
from stateward.errors import InvalidInput
from stateward.observe.counters import Counters

logger = logging.getLogger("stateward.observe.alarm")

WEBHOOK_SECONDS = 5.0
FEWEST_LOOKUPS = 20  # fewer have no 95th percentile worth the name

AlarmName = Literal["memory_write_suppressed", "memory_write_lost", "slow_lookups"]


class AlarmEvent(Struct, frozen=True):
    """The argument of a hook: an alarm was raised, or is over.

    `count` is how many writes were suppressed or lost, or lookups slow, in the last `seconds`.
    """

    name: AlarmName
    raised: bool
    count: int
    seconds: float


class Alarm(Struct, frozen=True):
    """Conditions of an alarm, and whom to notify.

    Raised when `suppressed` writes were suppressed within `seconds`, and when the 95th percentile
    of lookups in that time is over `slow` seconds; over when less than half of that is left. Raised
    too when a write that was kept locally turns out to be lost; over when none was for `seconds`.
    `hook` is a function of the `AlarmEvent` (it may be async), or a URL that the event is
    posted to as JSON; the alarm is logged in any case.
    """

    hook: Callable[[AlarmEvent], Any] | str | None = None
    suppressed: int = 10
    seconds: float = 300.0
    slow: float = 0.1

    def __post_init__(self) -> None:
        if type(self.suppressed) is not int or not 1 <= self.suppressed <= MOST:
            raise InvalidInput(
                f"Alarm.suppressed is a whole number from 1 to {MOST}, not {shown(self.suppressed)}"
            )
        for name in ("seconds", "slow"):
            value: Any = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1e9:
                raise InvalidInput(
                    f"Alarm.{name} is in seconds above 0, e.g. 60, not {shown(value)}"
                )
        if type(self.hook) is str:
            if not self.hook.startswith(("https://", "http://")):
                raise InvalidInput("Alarm.hook is a function or a URL that begins with https://")
        elif self.hook is not None and not callable(self.hook):
            raise InvalidInput(f"Alarm.hook is a function or a URL, not {self.hook!r}")


def chosen_alarm(alarm: Alarm | Callable[[AlarmEvent], Any] | str | None) -> Alarm:
    """Return the meaning of the argument `alarm` of `open`."""
    return alarm if isinstance(alarm, Alarm) else Alarm(alarm)


class Alarms:
    """The alarms of a store, whatever its engines. The caller passes the time; no I/O."""

    def __init__(self, alarm: Alarm, counters: Counters) -> None:
        self.alarm = alarm
        self._counters = counters
        self._lock = threading.Lock()  # several engines may ask concurrently; one of them is told
        self._suppressed: deque[float] = deque(maxlen=alarm.suppressed)
        self._looked: deque[tuple[float, int, int]] = deque()
        self._lost: deque[tuple[float, int]] = deque()  # when it was seen, and how many then
        self._lost_before = 0
        self._raised: set[str] = set()

    @property
    def raised(self) -> tuple[str, ...]:
        """Names of the alarms that are raised."""
        return tuple(sorted(self._raised))

    def suppressed(self, now: float) -> None:
        """Note that a write was suppressed at this monotonic time."""
        self._suppressed.append(now)

    def check(self, now: float) -> list[AlarmEvent]:
        """Return the alarms that were raised or are over since the last time."""
        with self._lock:
            return [*self._check_suppressed(now), *self._check_lost(now), *self._check_slow(now)]

    def _check_suppressed(self, now: float) -> list[AlarmEvent]:
        since = now - self.alarm.seconds
        count = sum(1 for at in list(self._suppressed) if at > since)
        most = self.alarm.suppressed
        return self._turn("memory_write_suppressed", count, count >= most, 2 * count < most)

    def _check_lost(self, now: float) -> list[AlarmEvent]:
        lost = self._counters.lost
        if lost > self._lost_before:
            self._lost.append((now, lost - self._lost_before))
            self._lost_before = lost
        while self._lost and self._lost[0][0] <= now - self.alarm.seconds:
            self._lost.popleft()
        count = sum(many for _, many in self._lost)
        return self._turn("memory_write_lost", count, count > 0, count == 0)

    def _check_slow(self, now: float) -> list[AlarmEvent]:
        readings, counters = self._looked, self._counters
        if not readings or now - readings[-1][0] >= self.alarm.seconds / 20:
            readings.append((now, counters.lookups, counters.slow_lookups))
        while len(readings) > 1 and readings[1][0] <= now - self.alarm.seconds:
            readings.popleft()
        count = counters.lookups - readings[0][1]
        slow = counters.slow_lookups - readings[0][2]
        up = count >= FEWEST_LOOKUPS and slow * 20 > count
        return self._turn("slow_lookups", slow, up, slow * 40 <= count)

    def _turn(self, name: AlarmName, count: int, up: bool, over: bool) -> list[AlarmEvent]:
        if name not in self._raised and up:
            self._raised.add(name)
            self._counters.alarms_raised += 1
        elif name in self._raised and over:
            self._raised.discard(name)
        else:
            return []
        event = AlarmEvent(name, name in self._raised, count, self.alarm.seconds)
        logger.error(
            "alarm_raised" if event.raised else "alarm_cleared",
            extra={"alarm": name, "count": count, "seconds": event.seconds},
        )
        return [event]


def tell(hook: Callable[[AlarmEvent], Any] | str | None, event: AlarmEvent) -> None:
    """Call the hook; blocks, and runs an async function in its own event loop."""
    try:
        if isinstance(hook, str):
            _post(hook, event)
        elif hook is not None:
            reply = hook(event)
            if inspect.isawaitable(reply):
                asyncio.run(_finish(reply))
    except Exception as error:  # the user's own code: whatever it raises must not stop the store
        failed(error, event)


def failed(error: Exception, event: AlarmEvent) -> None:
    """Log that the hook failed."""
    logger.error(
        "alarm_hook_failed",
        extra={"alarm": event.name, "error": f"{type(error).__name__}: {error}"},
    )


async def _finish(reply: Any) -> None:
    await reply


def _post(url: str, event: AlarmEvent) -> None:
    import urllib.request  # half of what importing Stateward would take

    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, encode_json(event), headers)
    with urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS) as answer:
        answer.read(1024)
