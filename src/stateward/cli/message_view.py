"""A stored message as people read it: who speaks, what is said, which tools are called.

Whatever its form: those of the providers, of LangChain, Pydantic AI and LlamaIndex, a message of
LangGraph as it is stored, an event of Google's ADK, a line of Claude Code. One of no known form is
its JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from stateward.context.tool_pairs import role_of
from stateward.integrations.kept.langgraph import MESSAGE

Message = Mapping[str, Any]

TEXTS = ("text", "input_text", "output_text")
PICTURES = ("image", "image_url", "input_image", "document", "file", "input_file", "audio")
SILENT = ("thinking", "redacted_thinking", "reasoning", "reasoningContent", "thought")
WRAPPED = ("data", "kwargs", "message")  # where LangChain and Claude Code put a message's fields


class ViewedCall(Struct, frozen=True):
    """A tool call; its result names the same `id`."""

    id: str
    name: str
    arguments: str


class ViewedResult(Struct, frozen=True):
    """The answer of a tool."""

    id: str
    text: str
    failed: bool = False


class MessageView(Struct, frozen=True):
    """A message, taken apart."""

    role: str
    text: str
    calls: tuple[ViewedCall, ...] = ()
    results: tuple[ViewedResult, ...] = ()


def view(message: Message) -> MessageView:
    """Never raises: what is stored may be anything."""
    role, inner = _spoken(message)
    if not role and "sessionId" in message:  # Claude Code notes its mode, and what it costs
        return MessageView("-", f"[{message.get('type')}]")
    calls = tuple(_calls(inner))
    results = tuple(_results(inner, role))
    text = "" if role == "tool" and results else _text(inner)
    if not (text or calls or results):
        text = "" if _is_silent(inner) else json.dumps(message, ensure_ascii=False)
    return MessageView(role or "-", text, calls, results)


def _spoken(message: Message) -> tuple[str, Message]:
    """Return the role, and the part of the message that holds the words."""
    if MESSAGE in message and isinstance(message.get("data"), Mapping):
        message = {"type": message[MESSAGE], **message["data"]}
    role = role_of(dict(message))
    if "role" not in message and "type" in message:
        held = (message.get(name) for name in WRAPPED)
        message = next((each for each in held if isinstance(each, Mapping)), message)
    content = message.get("content")
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):  # an event of ADK
        author = message.get("author")
        role = "user" if author == "user" else "assistant"
        message = content
    elif isinstance(message.get("blocks"), list):  # LlamaIndex
        beside = message.get("additional_kwargs")
        fields = {} if not isinstance(beside, Mapping) else beside
        message = {"content": [*map(_block, message["blocks"])]}
        message |= {name: fields[name] for name in ("tool_calls", "tool_call_id") if name in fields}
    elif isinstance(message.get("contents"), list):  # Microsoft's Agent Framework
        message = {"content": [*map(_held, message["contents"])]}
    elif role is not None and "kind" not in message and isinstance(message.get("parts"), list):
        message = {"content": [block for part in message["parts"] for block in _steps(part)]}
    elif role is not None and "kind" in message:  # Pydantic AI
        message = {"content": [*map(_part, _listed(message.get("parts")))]}
    if role is None and message.get("type") in ("function_call_output", "custom_tool_call_output"):
        role = "tool"
    elif role is None and ("call_id" in message or message.get("type") == "reasoning"):
        role = "assistant"
    shown = {"model": "assistant", "developer": "system", "function": "tool"}
    return (shown.get(role, role) if isinstance(role, str) else ""), message


def _steps(part: Any) -> list[Any]:
    """Return a part of the AI SDK as blocks that are known; a call has its result in it."""
    call = part.get("toolInvocation", part) if isinstance(part, Mapping) else None
    if not isinstance(call, Mapping) or "toolCallId" not in call:
        return [part]
    id, kind = call["toolCallId"], str(part.get("type"))
    name = call.get("toolName") or kind.removeprefix("tool-")
    use = {"type": "tool_use", "id": id, "name": name, "input": call.get("input", call.get("args"))}
    result = next((call[key] for key in ("output", "result", "errorText") if key in call), None)
    answer = {"type": "tool_result", "tool_use_id": id, "content": result}
    return [use] if result is None else [use, answer | {"is_error": "errorText" in call}]


def _part(part: Any) -> Any:
    """A part of a message of Pydantic AI as a block that is known."""
    kind = part.get("part_kind") if isinstance(part, Mapping) else None
    if kind in ("tool-call", "builtin-tool-call"):
        named = {"id": part.get("tool_call_id"), "name": part.get("tool_name")}
        return {"type": "tool_use", **named, "input": part.get("args")}
    if kind in ("tool-return", "builtin-tool-return", "retry-prompt") and part.get("tool_name"):
        failed = kind == "retry-prompt" or part.get("outcome", "success") != "success"
        result = {"content": part.get("content"), "is_error": failed}
        return {"type": "tool_result", "tool_use_id": part.get("tool_call_id"), **result}
    if kind == "thinking":
        return {"type": "thinking"}
    if kind is None or "content" not in part:
        return part
    content = part["content"]
    contents = content if isinstance(content, list) else [content]
    return {"type": "text", "text": "\n".join(map(_words, contents))}


def _words(content: Any) -> str:
    """Return the text of a part, or the kind of thing that it shows."""
    if isinstance(content, Mapping) and "kind" in content:
        return str(content.get("content") or f"[{content['kind']}]")
    return _plain(content)


def _block(block: Any) -> Any:
    """A block of a message of LlamaIndex as one that is known."""
    kind = block.get("block_type") if isinstance(block, Mapping) else None
    if kind == "tool_call":
        named = {"id": block.get("tool_call_id"), "name": block.get("tool_name")}
        return {"type": "tool_use", **named, "input": block.get("tool_kwargs")}
    return block if kind is None else {**block, "type": kind}


def _held(content: Any) -> Any:
    """A content of a message of Microsoft's Agent Framework as a block that is known."""
    kind = content.get("type") if isinstance(content, Mapping) else None
    if kind == "function_result":
        result = {
            "content": content.get("result"),
            "is_error": content.get("exception") is not None,
        }
        return {"type": "tool_result", "tool_use_id": content.get("call_id"), **result}
    return {"type": "thinking"} if kind == "text_reasoning" else content


def _blocks(message: Message) -> Iterator[Mapping[str, Any]]:
    yield message
    for name in ("content", "parts"):
        held = message.get(name)
        for block in held if isinstance(held, list) else ():
            if isinstance(block, Mapping):
                yield block


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = []
    for block in [*_listed(content), *_listed(message.get("parts"))]:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, Mapping):
            kind = str(block.get("type", "text"))
            if kind in TEXTS and isinstance(block.get("text"), str) and not block.get("thought"):
                texts.append(block["text"])
            elif kind in PICTURES or not {"image", "inline_data", "file_data"}.isdisjoint(block):
                texts.append(f"[{kind if kind in PICTURES else 'file'}]")
    return "\n".join(texts)


def _calls(message: Message) -> Iterator[ViewedCall]:
    for call in _listed(message.get("tool_calls")):
        if isinstance(call, Mapping):
            of = call.get("function") or call.get("custom") or call
            if isinstance(of, Mapping):
                yield _call(of, call.get("id"), "arguments", "args", "input")
    for block in _blocks(message):
        kind = str(block.get("type", ""))
        if isinstance(block.get("toolUse"), Mapping):
            use = block["toolUse"]
            yield _call(use, use.get("toolUseId"), "input")
        elif kind.endswith("tool_use"):
            yield _call(block, block.get("id"), "input")
        elif kind.endswith("_call") and "call_id" in block:
            yield _call(block, block["call_id"], "arguments", "input", "action")
        else:
            part = block.get("functionCall") or block.get("function_call")
            if isinstance(part, Mapping):
                yield _call(part, part.get("id") or part.get("name"), "args", "arguments")


def _call(of: Message, id: object, *names: str) -> ViewedCall:
    arguments: Any = next((of[name] for name in names if name in of), {})
    name = of.get("name") or of.get("type")
    return ViewedCall(str(id or ""), str(name or "a tool"), _plain(arguments))


def _results(message: Message, role: str) -> Iterator[ViewedResult]:
    if "tool_call_id" in message or (role == "tool" and isinstance(message.get("content"), str)):
        id = message.get("tool_call_id") or message.get("name")
        failed = message.get("status") == "error"
        yield ViewedResult(str(id or ""), _plain(message.get("content")), failed)
        return
    for block in _blocks(message):
        kind = str(block.get("type", ""))
        if isinstance(block.get("toolResult"), Mapping):
            result = block["toolResult"]
            failed = result.get("status") == "error"
            yield ViewedResult(str(result.get("toolUseId")), _plain(result.get("content")), failed)
        elif "tool_use_id" in block:
            failed = bool(block.get("is_error"))
            yield ViewedResult(str(block["tool_use_id"]), _plain(block.get("content")), failed)
        elif kind.endswith("_output") and ("call_id" in block or "id" in block):
            id = block.get("call_id") or block.get("id")
            yield ViewedResult(str(id), _plain(block.get("output")))
        else:
            part = block.get("functionResponse") or block.get("function_response")
            if isinstance(part, Mapping):
                id = part.get("id") or part.get("name")
                yield ViewedResult(str(id), _plain(part.get("response")))


def _plain(value: Any) -> str:
    """JSON on one line; text as it is, also the only text of blocks."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        only = value[0].get("text", value[0].get("json"))
        if only is not None:
            return _plain(only)
    return json.dumps(value, ensure_ascii=False)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_silent(message: Message) -> bool:
    """Nothing was said: only thoughts, or an event that changes state."""
    if message.get("type") in SILENT or message.get("content") in ("", None, []):
        return "content" in message or message.get("type") in SILENT or "parts" in message
    kinds = [str(block.get("type") or next(iter(block), "")) for block in _blocks(message)][1:]
    return bool(kinds) and all(kind in SILENT for kind in kinds)
