"""What the providers refuse, written from their documentation and from nothing else here.

Each function raises AssertionError for a list of messages that its provider answers with an error.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

Message = dict[str, Any]


def openai_chat(messages: list[Message]) -> None:
    """An assistant message with tool_calls must be followed by tool messages answering each."""
    waiting: set[str] = set()
    for message in messages:
        role = message["role"]
        assert role in ("system", "developer", "user", "assistant", "tool")
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a tool message without its call"
            waiting.discard(message["tool_call_id"])
            continue
        assert not waiting, "tool calls that were not answered before the next message"
        waiting = {call["id"] for call in message.get("tool_calls", ())}
    assert not waiting, "tool calls that are not answered"


OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
}


def openai_responses(messages: list[Message]) -> None:
    """Every call has its output, every output its call; reasoning stays with what it led to."""
    calls: dict[str, str] = {}
    outputs: set[str] = set()
    for at, item in enumerate(messages):
        kind = item.get("type", "message")
        if kind in OUTPUTS:
            calls[item["call_id"]] = OUTPUTS[kind]
            if item.get("reasoned"):
                assert _reasoning_before(messages, at), "a call without its reasoning item"
        elif kind in OUTPUTS.values():
            assert calls.get(item["call_id"]) == kind, "an output without its call"
            outputs.add(item["call_id"])
        elif kind == "reasoning":
            following = messages[at + 1] if at + 1 < len(messages) else {}
            assert following.get("made_by") == item["id"], "reasoning without its following item"
        elif item.get("reasoned"):
            assert _reasoning_before(messages, at), "a message without its reasoning item"
    assert set(calls) == outputs, "calls without an output"


def _reasoning_before(messages: list[Message], at: int) -> bool:
    made_by = messages[at]["made_by"]
    return any(m.get("type") == "reasoning" and m["id"] == made_by for m in messages[:at])


def anthropic(messages: list[Message]) -> None:
    """Begins with the user; each tool_use is answered in the very next message, and only there.

    Neighbours of one role are one turn for the API, so they are joined first.
    """
    turns: list[tuple[str, list[Message]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks, "a message without content"
        if turns and turns[-1][0] == message["role"]:
            turns[-1] = (message["role"], turns[-1][1] + blocks)
        else:
            turns.append((message["role"], blocks))
    _block_turns(
        turns,
        lambda block: block["id"] if block.get("type") == "tool_use" else None,
        lambda block: block["tool_use_id"] if block.get("type") == "tool_result" else None,
    )


def bedrock(messages: list[Message]) -> None:
    """As Anthropic, but the roles must alternate as they are."""
    roles = [message["role"] for message in messages]
    assert all(a != b for a, b in pairwise(roles)), "roles do not alternate"
    _block_turns(
        [(message["role"], message["content"]) for message in messages],
        lambda block: block["toolUse"]["toolUseId"] if "toolUse" in block else None,
        lambda block: block["toolResult"]["toolUseId"] if "toolResult" in block else None,
    )


def _block_turns(turns: list[tuple[str, list[Message]]], call: Any, result: Any) -> None:
    waiting: set[str] = set()
    for at, (role, blocks) in enumerate(turns):
        assert role in ("user", "assistant")
        assert at or role == "user", "does not begin with the user"
        results = {result(block) for block in blocks} - {None}
        calls = {call(block) for block in blocks} - {None}
        assert role == "user" or not results
        assert role == "assistant" or not calls
        assert results == waiting, "results and the calls right before them differ"
        waiting = calls
    assert not waiting, "tool calls that are not answered"


VALIDATORS = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "bedrock": bedrock,
}
