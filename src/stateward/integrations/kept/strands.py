"""Names in what the Strands adapter stores: a session is a thread, its agents are documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.ops import Entity, Head

STATUS = "strands"  # the status of a thread that is a session
SESSION = "session"  # the document that marks a session


def session(entity: Entity, head: Head) -> str:
    return f"session {entity.id} of Strands"


def document(name: str) -> str | None:
    if name == SESSION:
        return "the session"
    what, _, id = name.partition(" ")
    named = {"agent": "state of the agent", "multi_agent": "state of the graph or swarm"}
    return f"{named[what]} {id}" if id and what in named else None


def message(message: Mapping[str, Any]) -> str | None:
    beside = message.get("strands")
    if not isinstance(beside, Mapping):
        return None
    return f"message {beside.get('message_id')} of the agent {beside.get('agent')}"


def blob(entity: Entity, head: Head) -> str:
    return f"what Strands stores under {entity.id}"
