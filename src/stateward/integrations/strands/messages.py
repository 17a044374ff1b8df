"""Messages of Strands as a thread stores them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from strands.types.session import SessionMessage

from stateward.codec import encode
from stateward.shapes import translate


def as_message(agent_id: str, message: SessionMessage) -> dict[str, Any]:
    """Return a message as the model sees it, with Strands' own fields in `strands`."""
    fields = json.loads(plain_json(message.to_dict()))
    shown = fields["message"] if fields["redact_message"] is None else fields["redact_message"]
    beside = {"agent": agent_id, **fields}
    if fields["redact_message"] is None:
        del beside["message"]
    else:
        del beside["redact_message"]
    return {**shown, "strands": beside}


def as_session_message(message: dict[str, Any]) -> SessionMessage:
    """Return a stored message as one of a Strands session."""
    shown = {name: value for name, value in message.items() if name != "strands"}
    beside = message["strands"]
    if "redact_message" in beside:
        return SessionMessage.from_dict({**beside, "message": shown})
    return SessionMessage.from_dict({**beside, "redact_message": shown})


def of_agent(messages: Sequence[dict[str, Any]], agent_id: str) -> list[SessionMessage]:
    """Return an agent's messages in a thread, and the messages of other frameworks.

    A message of another framework has the index of the agent's preceding message.
    """
    session_messages: list[SessionMessage] = []
    index = -1
    for own, run in groupby(messages, lambda message: "strands" in message):
        if own:
            own_messages = (each for each in run if agent_of(each) == agent_id)
            session_messages += map(as_session_message, own_messages)
            index = max((index, *(message.message_id for message in session_messages)))
        else:
            translated: list[Any] = translate(list(run), "bedrock").messages
            session_messages += (SessionMessage(message, index) for message in translated)
    return session_messages


def agent_of(message: dict[str, Any]) -> str | None:
    """Return the id of a message's agent; None: not a message of Strands."""
    beside = message.get("strands")
    return beside.get("agent") if isinstance(beside, dict) else None


def plain_json(value: Any) -> str:
    """Return the JSON text of Strands' data, with enumerations as text."""
    return encode(json.loads(json.dumps(value)), "the state of the agent")
