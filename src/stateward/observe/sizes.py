"""Size and growth of a store, and when it will be full."""

from __future__ import annotations

import logging
import threading
from collections import deque

from msgspec import Struct

from stateward.engine import Description, SyncEngine
from stateward.errors import StatewardError
from stateward.world import World

logger = logging.getLogger("stateward.observe.sizes")

EVERY = 15.0  # seconds between two looks at a store
KEPT = 288  # looks that growth is read from: one every five minutes of a day
APART = 300.0
SOONEST = 60.0  # seconds after which growth says anything
DAY = 86_400.0


class SizeSample(Struct, frozen=True):
    """The size of a store at one moment of the monotonic clock."""

    at: float
    bytes: int


class SizeGrowth(Struct, frozen=True):
    """The growth of a store by the looks so far. Numbers not yet known are None."""

    bytes: int | None
    rows: int | None
    capacity: int | None
    bytes_a_day: float | None
    days_to_full: float | None


class Sizes:
    """Looks at a store now and then, through its own connections, when an exporter asks.

    Nothing is opened, and no thread begun, in a process that exports nothing.
    """

    def __init__(self, engine: SyncEngine, world: World) -> None:
        self._engine = engine
        self._world = world
        self._lock = threading.Lock()
        self._looks: deque[SizeSample] = deque(maxlen=KEPT)
        self._latest: Description | None = None
        self._at: float | None = None

    def look(self) -> None:
        """Ask the store, unless that was done a moment ago. A store that fails is asked later."""
        with self._lock:
            now = self._world.monotonic()
            if self._at is not None and now - self._at < EVERY:
                return
            self._at = now
        try:
            self._engine.open()
            try:
                description = self._engine.describe()
            finally:
                self._engine.close()
        except StatewardError as error:
            logger.info("storage_not_read", extra={"error": type(error).__name__})
            return
        self.note(description)

    def note(self, description: Description) -> None:
        """Keep a description that the store has just given of itself."""
        with self._lock:
            now = self._world.monotonic()
            self._latest, self._at = description, now
            if description.bytes is None:
                return
            if len(self._looks) > 1 and now - self._looks[-2].at < APART:
                self._looks.pop()  # the newest one is always kept, the others stand apart
            self._looks.append(SizeSample(now, description.bytes))

    def growth(self) -> SizeGrowth | None:
        """Return the growth so far; None: the store has not been looked at yet."""
        with self._lock:
            latest, looks = self._latest, list(self._looks)
        if latest is None:
            return None
        a_day = None
        if len(looks) > 1 and looks[-1].at - looks[0].at >= SOONEST:
            a_day = (looks[-1].bytes - looks[0].bytes) / (looks[-1].at - looks[0].at) * DAY
        days = None
        size, capacity = latest.bytes, latest.capacity
        if a_day is not None and a_day > 0 and capacity is not None and size is not None:
            days = max(0.0, capacity - size) / a_day
        return SizeGrowth(size, latest.rows, capacity, a_day, days)
