"""Messages of Strands as a thread holds them."""

from __future__ import annotations

import json
from typing import Any

from strands.types.session import SessionMessage

from stateward.codec import encode


def as_message(agent_id: str, message: SessionMessage) -> dict[str, Any]:
    """A message as the model sees it, with what Strands keeps beside it in `strands`."""
    kept = json.loads(plain_json(message.to_dict()))
    shown = kept["message"] if kept["redact_message"] is None else kept["redact_message"]
    beside = {"agent": agent_id, **kept}
    if kept["redact_message"] is None:
        del beside["message"]
    else:
        del beside["redact_message"]
    return {**shown, "strands": beside}


def as_session_message(message: dict[str, Any]) -> SessionMessage:
    """The way back."""
    shown = {name: value for name, value in message.items() if name != "strands"}
    beside = message["strands"]
    if "redact_message" in beside:
        return SessionMessage.from_dict({**beside, "message": shown})
    return SessionMessage.from_dict({**beside, "redact_message": shown})


def agent_of(message: dict[str, Any]) -> str | None:
    """Whose message it is; None: not one of Strands."""
    beside = message.get("strands")
    return beside.get("agent") if isinstance(beside, dict) else None


def plain_json(value: Any) -> str:
    """The JSON text of what Strands serialises: its enumerations are text."""
    return encode(json.loads(json.dumps(value)), "the state of the agent")
