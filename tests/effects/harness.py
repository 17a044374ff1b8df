"""Kill a framework's process around a tool call, again and again, and count what was charged.

    python harness.py FRAMEWORK wrapped|bare URL PORT ROUNDS [keyed]

One process imports the framework and is forked for every death: a start costs a fork, no import.
Each order is delivered once to a process that dies, and then again to one that lives. Prints what
the second delivery gave, by order.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from effects.cashiers import turn
from effects.deaths import POINTS, Death


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """How a child ended that has done this, and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = json.dumps(work()).encode()
            while said:
                said = said[os.write(writing, said) :]
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(said) if said else None


def main() -> None:
    framework, how, url, port, rounds = sys.argv[1:6]
    wrapped = how == "wrapped"
    options = {"keyed": "keyed" in sys.argv[6:]} if wrapped else None
    logging.disable(logging.CRITICAL)
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    orders = [f"{point}-{number}" for number in range(int(rounds)) for point in POINTS]

    def deliver(order: str, point: int) -> str:
        death = Death(point, wrapped=wrapped, port=int(port))
        return turn(framework, url, order, death, options)

    # What a first run imports is imported here, once for all: no event loop is left, no thread.
    warm = turn(framework, "memory://", "warm", Death(0, wrapped=False, port=int(port)), options)
    survived = []
    for order in orders:
        status, said = forked(lambda order=order: deliver(order, int(order[0])))
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            survived.append((order, said))
    status, told = forked(lambda: {order: deliver(order, 0) for order in orders})
    print(json.dumps({"warm": warm, "survived": survived, "told": told}))


if __name__ == "__main__":
    main()
