"""Messages of Pydantic AI, each stored as the framework itself writes it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai.agent import AgentRun, AgentRunResult
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    SystemPromptPart,
)
from pydantic_ai.result import StreamedRunResult, StreamedRunResultSync

from stateward.codec import encode
from stateward.errors import InvalidInput, SchemaError
from stateward.shapes import translate

Ended = (
    AgentRunResult[Any]
    | StreamedRunResult[Any, Any]
    | StreamedRunResultSync[Any, Any]
    | AgentRun[Any, Any]
)
Added = Ended | Sequence[ModelMessage]


def as_stored(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as JSON objects."""
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return dumped


def as_given(messages: Sequence[dict[str, Any]], thread: str) -> list[ModelMessage]:
    """Return stored messages as the framework's; those of other frameworks are translated."""
    own = translate(messages, "pydantic-ai").messages
    text = f"[{','.join(encode(message, 'a message') for message in own)}]"
    try:
        return ModelMessagesTypeAdapter.validate_json(text)
    except ValidationError as error:
        raise SchemaError(
            f"the thread {thread!r} holds messages that this release of Pydantic AI cannot read; "
            "install the one that wrote them, or read it with store.thread(id).load()"
        ) from error


def system_request(first: Sequence[ModelMessage], summary: str | None) -> list[ModelMessage]:
    """Return a request for messages that a window leaves out: system prompt and summary.

    The framework adds no system prompt of its own to a history.
    """
    parts = [
        part
        for message in first
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    ]
    if summary is not None:
        parts.append(SystemPromptPart(summary))
    return [ModelRequest(parts=parts)] if parts else []


def new_messages(result: Added) -> Sequence[ModelMessage]:
    """Return the messages that a run has added; raises `InvalidInput` before its end."""
    if isinstance(result, Sequence):
        return result
    ended = True
    if isinstance(result, AgentRun):
        ended = result.result is not None
    elif isinstance(result, StreamedRunResult | StreamedRunResultSync):
        ended = result.is_complete
    if not ended:
        raise InvalidInput(
            "this run is not at its end: add it when its stream has been read, or its last node "
            "has run; or add the messages that there are: add(run.new_messages(), key=…)"
        )
    return result.new_messages()
