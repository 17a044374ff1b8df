"""A bound in time for the driver's waits. No I/O, used by both colours."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from holdfast.engines.postgres.failures import Unanswered


def bounded(
    gen: Generator[Any, Any, Any], clock: Callable[[], float], end: float
) -> Generator[Any, Any, Any]:
    """The driver's generator, given up at `end`: it is resumed every tenth of a second or so."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and clock() >= end:
                raise Unanswered("no answer in time")
            state = gen.send(ready)
    except StopIteration as stop:
        return stop.value
