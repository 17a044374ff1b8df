"""What the adapter of Google's ADK keeps: a session is a thread, its events are messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.ops import Entity, Head

STATUS = "adk"  # of a thread that is a session
STATE = "state"  # the document with the session's own state
UNMERGED = "unmerged "  # begins the names of notes of what is to be brought to user and application
SHARED = "adk "  # begins the ids, and the names, of what an application or a user has in common


def address(*parts: str) -> str:
    """Parts of an id that cannot be mistaken for others."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def parts_of(address: str) -> list[str]:
    """The way back."""
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
    """Of a user, beside their own documents."""
    if not name.startswith(SHARED):
        return None
    return f"the user's state in the ADK application {name.removeprefix(SHARED)}"


def event(message: Mapping[str, Any]) -> str | None:
    author, run = message.get("author"), message.get("invocation_id")
    return f"event of {author}" + (f" in invocation {run}" if run else "") if author else None
