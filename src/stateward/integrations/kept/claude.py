"""Names in what the Claude Agent SDK adapter stores: a transcript is a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.integrations.kept.adk import address, parts_of
from stateward.ops import Entity, Head
from stateward.state.handle import DERIVED

STATUS = "claude"  # the status of a thread that is a transcript


def thread_id(project_key: str, session_id: str, subpath: str | None = None) -> str:
    """Return the thread id of a transcript; subagents are below the id of their session."""
    session = address(project_key, session_id)
    return session if subpath is None else f"{session}/{subpath}"


def session(entity: Entity, head: Head) -> str:
    project, id, *subpath = parts_of(entity.id) if "/" in entity.id else ("", entity.id)
    whose = f"subagent {subpath[-1]} in the session {id}" if subpath else f"session {id}"
    return f"{whose} of the Claude Agent SDK" + (f" in {project}" if project else "")


def document(name: str) -> str | None:
    return "the SDK's summary of the session" if name == DERIVED else None


def entry(message: Mapping[str, Any]) -> str | None:
    kind, uuid = message.get("type"), message.get("uuid")
    return f"{kind} {uuid}" if kind and uuid else None
