"""The entities of events: of each kind of event the newest few conversations and pieces of work."""

from __future__ import annotations

import threading
from collections import deque

from stateward.kinds import (
    AGENT_FRAMEWORK_RUN,
    BLOB,
    EFFECT,
    JOURNAL,
    LANGGRAPH_THREAD,
    SCHEDULE,
    SHARED,
    TASK,
    THREAD,
    WORKFLOW,
)
from stateward.ops import Entity

# As the fields of `SignalPoint` are called.
EVENTS = (
    *("failures", "conflicts", "fenced", "went_back"),
    *("suppressed", "dropped", "late", "context_breaks"),
)
NEWEST = 3  # of each event, between two heartbeats
# Neither people, who may be erased, nor what is the store's own.
NAMED = frozenset(
    (
        *(THREAD, WORKFLOW, TASK, SCHEDULE, EFFECT, SHARED, JOURNAL, BLOB),
        *(LANGGRAPH_THREAD, AGENT_FRAMEWORK_RUN),
    )
)


class Concerned:
    """Noted where something is counted, none of which is frequent, and taken by the heartbeat."""

    def __init__(self) -> None:
        self._newest: dict[str, deque[Entity]] = {}
        self._lock = threading.Lock()

    def note(self, event: str, entity: Entity) -> None:
        """Note that an event concerned this entity."""
        if entity.kind not in NAMED:
            return
        with self._lock:
            newest = self._newest.setdefault(event, deque(maxlen=NEWEST))
            if entity in newest:
                newest.remove(entity)
            newest.append(entity)

    def take(self) -> dict[str, list[Entity]]:
        """Return the entities noted since the last call, the oldest first."""
        with self._lock:
            taken, self._newest = self._newest, {}
        return {event: list(entities) for event, entities in taken.items()}
