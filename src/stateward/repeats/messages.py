"""Messages in the shapes of providers: the speaker, the words, the tool calls.

Four shapes are read: OpenAI chat, OpenAI Responses items, Anthropic, and Bedrock (Strands uses the
same). What fits none of them says nothing here; it is never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

TEXTS = ("text", "input_text", "output_text")
CALLS = ("function_call", "custom_tool_call", "tool_use")
RESULTS = ("function_call_output", "custom_tool_call_output", "tool_result")
DEEP = 1_000_000  # characters of arguments that are compared


class Call(Struct, frozen=True):
    """A tool call: the tool, its normalised arguments, and the id that its result names."""

    name: str
    arguments: str
    id: str


class Result(Struct, frozen=True):
    """The result of a tool: the id of its call, and whether the tool reported a failure."""

    id: str
    failed: bool


def speaker(message: Mapping[str, Any]) -> str:
    """Return `user` or `assistant`; "" for a system prompt or the result of a tool."""
    role = message.get("role")
    if role in ("assistant", "model", "ai"):
        return "assistant"
    return "user" if role in ("user", "human") else ""


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, without tool calls, tool results, pictures and reasoning."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text for part in _parts(content) if (text := _text(part)))


def _parts(content: object) -> list[Any]:
    return content if isinstance(content, list) else []


def _text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or part.get("type", "text") not in TEXTS:
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def calls(message: Mapping[str, Any]) -> list[Call]:
    """Return the tool calls of a message, in any of the four shapes."""
    message_calls = [_chat_call(call) for call in _parts(message.get("tool_calls"))]
    if isinstance(message.get("function_call"), Mapping):
        message_calls.append(_call(message["function_call"], "arguments", ""))
    for part in (message, *_parts(message.get("content"))):
        if not isinstance(part, Mapping):
            continue
        if part.get("type") in CALLS:
            inputs = "input" if "input" in part else "arguments"
            message_calls.append(_call(part, inputs, part.get("call_id") or part.get("id")))
        elif isinstance(part.get("toolUse"), Mapping):
            use = part["toolUse"]
            message_calls.append(_call(use, "input", use.get("toolUseId")))
    return [call for call in message_calls if call is not None]


def _chat_call(call: object) -> Call | None:
    if not isinstance(call, Mapping):
        return None
    for place, inputs in (("function", "arguments"), ("custom", "input")):
        if isinstance(call.get(place), Mapping):
            return _call(call[place], inputs, call.get("id"))
    return None


def _call(call: Mapping[str, Any], inputs: str, id: object) -> Call | None:
    name = call.get("name")
    if not isinstance(name, str) or not name:
        return None
    return Call(name, _one_form(call.get(inputs)), id if isinstance(id, str) else "")


def _one_form(arguments: object) -> str:
    """Return the arguments with sorted names, so that their order makes no difference."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments[:DEEP])
        except (ValueError, RecursionError):
            return str(arguments)
    try:
        return json.dumps(arguments, sort_keys=True, default=str)[:DEEP]
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)[:DEEP]


def results(message: Mapping[str, Any]) -> list[Result]:
    """Return the tool results of a message, in any of the four shapes."""
    if message.get("role") == "tool" and "content" in message:
        failed = _failed(message) or _says_error(message.get("content"))
        return [Result(_id(message.get("tool_call_id")), failed)]
    tool_results = []
    for part in (message, *_parts(message.get("content"))):
        if not isinstance(part, Mapping):
            continue
        if part.get("type") in RESULTS:
            output = part.get("output", part.get("content"))
            failed = _failed(part) or _says_error(output)
            tool_results.append(Result(_id(part.get("call_id") or part.get("tool_use_id")), failed))
        elif isinstance(part.get("toolResult"), Mapping):
            result = part["toolResult"]
            failed = _failed(result) or _says_error(result.get("content"))
            tool_results.append(Result(_id(result.get("toolUseId")), failed))
    return tool_results


def _id(value: object) -> str:
    return value if isinstance(value, str) else ""


def _failed(result: Mapping[str, Any]) -> bool:
    return result.get("is_error") is True or result.get("status") in (
        "error",
        "failed",
        "incomplete",
    )


def _says_error(output: object) -> bool:
    """Return whether a result reports a failure: a JSON `error`, or a text that begins so."""
    if isinstance(output, list):
        return any(_says_error(part) for part in output[:8])
    if isinstance(output, Mapping):
        inner = output.get("text", output.get("json"))
        return bool(output.get("error")) or (inner is not None and _says_error(inner))
    if not isinstance(output, str):
        return False
    start = output.lstrip()[:200].lower()
    return start.startswith(("error", "exception", "traceback", "failed", "timeout")) or (
        start.startswith("{") and '"error"' in start and '"error": null' not in start
    )
