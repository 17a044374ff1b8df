"""How a child talks with the test that started it, and how it calls a store of either colour."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any


def say(line: str) -> None:
    """One write, so that lines of several threads are never mixed."""
    os.write(1, f"{line}\n".encode())


def report(**facts: Any) -> None:
    """The last line: all that the test wants to know."""
    say(json.dumps(facts))


def hear() -> str:
    """The next line the test says; "" when it says no more."""
    return sys.stdin.readline().rstrip("\n")


def ready() -> None:
    """Wait until everybody is ready, and then for the moment at which all begin."""
    say("ready")
    time.sleep(max(0.0, float(hear()) - time.monotonic()))


def open_store(colour: str, url: str, **options: Any) -> Any:
    """A store of either colour; nothing of the other is imported."""
    if colour == "sync":
        import stateward.sync

        return stateward.sync.open(url, **options)
    import stateward

    return stateward.open(url, **options)


async def settled(answer: Any) -> Any:
    """What a call answers, whichever colour its store has."""
    return await answer if inspect.isawaitable(answer) else answer


def described(error: BaseException) -> dict[str, Any]:
    """An error as the test wants to see it."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "applied": getattr(error, "applied", None),
        "causes": [type(cause).__name__ for cause in causes(error)],
        "kinds": [kind.__name__ for kind in type(error).__mro__],
    }


def causes(error: BaseException) -> Iterator[BaseException]:
    """What it says it was raised from, and what that was raised from."""
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
