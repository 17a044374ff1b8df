"""How a replica talks with the test that started it."""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

logging.getLogger("stateward").addHandler(logging.NullHandler())  # standard error is for failures

facts: dict[str, Any] = json.loads(sys.argv[1])


def say(**event: Any) -> None:
    """One write, so that lines of several threads are never mixed."""
    os.write(1, json.dumps(event).encode() + b"\n")


def hear() -> dict[str, Any] | None:
    """The next order; None when there will be no more."""
    line = sys.stdin.readline()
    order: dict[str, Any] | None = json.loads(line) if line else None
    return order


def listen(heard: Callable[[dict[str, Any]], None]) -> None:
    """Pass every order on, from a thread of its own."""

    def run() -> None:
        while (order := hear()) is not None:
            heard(order)

    Thread(target=run, daemon=True).start()


_effects = os.open(facts["effects"], os.O_WRONLY | os.O_APPEND)


def effect(**event: Any) -> None:
    """Change the world: a line of the file that all replicas append to."""
    os.write(_effects, json.dumps(event).encode() + b"\n")


async def settled(answer: Any) -> Any:
    """What a call answers, whichever colour its store has."""
    return await answer if inspect.isawaitable(answer) else answer
