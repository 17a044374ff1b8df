"""CrewAI: a flow's state is loaded by its id, the turn is added, and it is saved by `@persist`."""

from __future__ import annotations

import sqlite3

from crewai.flow.persistence import SQLiteFlowPersistence
from shapes import Json, home, newest


class Flows:
    keys = False
    unavailable = (sqlite3.OperationalError, OSError)

    def __init__(self, namespace: str) -> None:
        self._persistence = SQLiteFlowPersistence(str(home() / "flows.db"))

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        state = self._persistence.load_state(thread) or {"id": thread, "messages": []}
        said = [*state["messages"], *messages]
        self._persistence.save_state(thread, "reply", {**state, "messages": said})

    def load(self, thread: str, last: int | None) -> list[Json]:
        state = self._persistence.load_state(thread)
        return newest(state["messages"] if state else [], last)
