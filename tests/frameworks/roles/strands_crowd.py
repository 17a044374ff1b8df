"""Several processes that speak in one session: once all at once, then in turns: url, count."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from strands.session import RepositorySessionManager
from strands.types.exceptions import EventLoopException, SessionException

import stateward.sync
from stateward.integrations.strands import StatewardSessionRepository

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part, tell
from frameworks.strands_model import waiter

TURNS = 1


def say(store: stateward.sync.Store, name: str) -> None:
    repository = StatewardSessionRepository(store)
    manager = RepositorySessionManager("crowd", session_repository=repository)
    waiter(manager, name)(name)
    tell([name, "done"])


def at_once(number: int) -> None:
    with stateward.sync.open(url) as store:
        try:
            say(store, f"{number}.at once")
        except (SessionException, EventLoopException):
            tell([f"{number}.at once", "refused"])


def in_turns(number: int) -> None:
    with stateward.sync.open(url) as store:
        for turn in range(TURNS):
            with store.lock("session crowd"):
                say(store, f"{number}.{turn}")


url, count = sys.argv[1], int(sys.argv[2])
logging.disable(logging.CRITICAL)  # refusals are what is expected here
part(count, at_once)
part(count, in_turns)
