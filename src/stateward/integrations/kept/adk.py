"""Names in what the ADK adapter stores: a session is a thread, its events are messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.ops import Entity, Head

STATUS = "adk"  # the status of a thread that is a session
STATE = "state"  # the document with the session's own state
UNMERGED = "unmerged "  # prefix of the notes of changes for user and application
SHARED = "adk "  # prefix of the ids and names of an application's and a user's shared state


def address(*parts: str) -> str:
    """Join parts of an id without ambiguity."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def parts_of(address: str) -> list[str]:
    """Return the parts that `address` has joined."""
    return [part.replace("%2F", "/").replace("%25", "%") for part in address.split("/")]


def shared_name(app_name: str) -> str:
    return f"{SHARED}{app_name}"


def session(entity: Entity, head: Head) -> str:
    parts = parts_of(entity.id)
    if len(parts) != 3:
        return "session of Google's ADK"
    app, _, id = parts
    return f"session {id} of the ADK application {app}"


def application(entity: Entity, head: Head) -> str:
    return f"state of the ADK application {entity.id.removeprefix(SHARED)}"


def document(name: str) -> str | None:
    if name == STATE:
        return "the session's own state"
    return "state still to be brought to user and app" if name.startswith(UNMERGED) else None


def document_of_user(name: str) -> str | None:
    """Describe a document of ADK beside a user's own documents."""
    if not name.startswith(SHARED):
        return None
    return f"the user's state in the ADK application {name.removeprefix(SHARED)}"


def event(message: Mapping[str, Any]) -> str | None:
    author, run = message.get("author"), message.get("invocation_id")
    return f"event of {author}" + (f" in invocation {run}" if run else "") if author else None
