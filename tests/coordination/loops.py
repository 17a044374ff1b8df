"""Tests on asyncio's own event loop and on uvloop, and on a machine that others use too."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_every_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on each loop. What a loop would only log (a callback that failed) fails it."""

    def run(loop: str, **fixtures: Any) -> None:
        problems: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, what: problems.append(what))
            await test(**fixtures)

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(watched())
        assert not problems

    signature = inspect.signature(test)
    first = inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *signature.parameters.values()]
    )
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__module__ = test.__module__
    return pytest.mark.parametrize("loop", LOOPS)(run)


class Stalls:
    """How long this process has stood still at most, though it wanted to run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._over.wait(0.01):
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def while_the_machine_runs(test: Callable[..., None]) -> Callable[..., None]:
    """For a test that a lease is kept: a machine that stands still really loses it.

    So a failure counts only if the process was never stalled meanwhile; else it is tried again.
    """

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        for _ in range(10):
            with Stalls() as stalls:
                try:
                    return test(**fixtures)
                except BaseException:
                    if stalls.longest < 0.2:
                        raise
        raise AssertionError("the machine stands still all the time; nothing can be tested here")

    return run
