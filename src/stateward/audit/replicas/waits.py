"""Time that replicas waited for a processor, and for which the memory is not to blame."""

from __future__ import annotations

import time
from pathlib import Path

from stateward.audit.replicas.fleet import Fleet

LEAST = 1.0  # seconds that one of them waited in all
SHARE = 0.1  # and this much of the time


class ProcessorWaits:
    """Time that replicas still alive waited for a processor; 0 where the system reports none."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._began = time.monotonic()
        self._before = self._waited()

    def _waited(self) -> dict[int, float]:
        return {each.pid: waiting_seconds(each.pid) for each in self._fleet.replicas if each.alive}

    @property
    def seconds(self) -> float:
        now = self._waited()
        return max((now[pid] - self._before.get(pid, 0.0) for pid in now), default=0.0)

    @property
    def is_busy(self) -> bool:
        return self.seconds > max(LEAST, SHARE * (time.monotonic() - self._began))

    def __str__(self) -> str:
        return f"a process waited {self.seconds:.1f} s for a processor"


def waiting_seconds(pid: int) -> float:
    """Return the seconds that a process was ready but did not run; 0 if unknown."""
    try:
        _, delay, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(delay) / 1e9
