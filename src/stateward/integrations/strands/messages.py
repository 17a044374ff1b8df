"""Messages of Strands as a thread holds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from strands.types.session import SessionMessage

from stateward.codec import encode
from stateward.shapes import translate


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


def of_agent(messages: Sequence[dict[str, Any]], agent_id: str) -> list[SessionMessage]:
    """An agent's messages as they stand in a thread, and what other frameworks have added there.

    The latter have the index of the agent's message before them, after which they sort.
    """
    found: list[SessionMessage] = []
    index = -1
    for own, run in groupby(messages, lambda message: "strands" in message):
        if own:
            found += (as_session_message(each) for each in run if agent_of(each) == agent_id)
            index = max((index, *(message.message_id for message in found)))
        else:
            told: list[Any] = translate(list(run), "bedrock").messages
            found += (SessionMessage(message, index) for message in told)
    return found


def agent_of(message: dict[str, Any]) -> str | None:
    """Whose message it is; None: not one of Strands."""
    beside = message.get("strands")
    return beside.get("agent") if isinstance(beside, dict) else None


def plain_json(value: Any) -> str:
    """The JSON text of what Strands serialises: its enumerations are text."""
    return encode(json.loads(json.dumps(value)), "the state of the agent")
