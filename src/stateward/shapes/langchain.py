"""`langchain`: messages of LangChain and LangGraph, as `messages_from_dict` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.blocks import read_content
from stateward.shapes.openai_chat import read_call
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "LangChain"
MESSAGE = "$message"  # names the type of a message in what the LangGraph adapter stores
ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
}
CLASSES = {f"{kind.title()}Message": kind for kind in ("human", "system", "tool", "function")}
CLASSES |= {"AIMessage": "ai"} | {kind: kind for kind in ROLES if kind.endswith("Chunk")}
TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}


def unwrapped(message: Message) -> tuple[str, Mapping[str, Any]]:
    """The type of a message and its fields, in each way in which LangChain serialises one."""
    if MESSAGE in message:
        return p.text_of(message[MESSAGE]), p.mapped(message.get("data"))
    kind = p.text_of(message.get("type"))
    if kind == "constructor":
        path = p.listed(message.get("id"))
        name = p.text_of(path[-1]) if path else ""
        return CLASSES.get(name, ""), p.mapped(message.get("kwargs"))
    if isinstance(message.get("data"), Mapping):
        return kind, message["data"]
    return kind, message


def read(message: Message) -> Speech:
    kind, held = unwrapped(message)
    role, content = ROLES.get(kind, ""), held.get("content")
    name = p.text_of(held.get("name"))
    if role == "tool":
        blocks = read_content(content) if isinstance(content, list) else []
        id, failed = p.text_of(held.get("tool_call_id")), held.get("status") == "error"
        return Speech("tool", [p.ResultPart(p.result_content(content, blocks), id, name, failed)])
    parts = read_content(content)
    extra = p.mapped(held.get("additional_kwargs"))
    made = [read_call(call) for call in p.listed(held.get("tool_calls"))]
    made += (read_call(call) for call in p.listed(held.get("invalid_tool_calls")))
    if role == "assistant" and not made:
        made = [read_call(call) for call in p.listed(extra.get("tool_calls"))]
    if made:  # blocks name them a second time
        call_ids = {call.id for call in made}
        parts = [
            each for each in parts if not isinstance(each, p.CallPart) or each.id not in call_ids
        ]
    if extra.get("__openai_role__") == "developer":
        role = "developer"
    return Speech(role, [*parts, *made], name)


def kept(speech: Speech) -> Message | None:
    if speech.shape != "langchain" or not speech.role:
        return None
    if speech.raw.keys() == {"type", "data"}:
        return speech.raw
    kind, held = unwrapped(speech.raw)
    return {"type": kind, "data": dict(held)}


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for speech in speeches:
        if speech.role == "tool":
            messages += (_result(result, sources) for result in p.results(speech.parts))
            continue
        own = sources.own(speech.parts)
        messages.append(own if own is not None else _message(speech, sources))
    return messages


def _message(speech: Speech, sources: Sources) -> Message:
    blocks = [b for part in speech.parts if (b := _block(part, sources)) is not None]
    only = len(blocks) == 1 and blocks[0]["type"] == "text"
    kind = TYPES[speech.role]
    data: Message = {"content": blocks[0]["text"] if only else blocks or "", "type": kind}
    if speech.name:
        data["name"] = speech.name
    if speech.role == "developer":
        data["additional_kwargs"] = {"__openai_role__": "developer"}
    if called := p.calls(speech.parts):
        sources.mark_order(speech.parts, NAME)
        data["tool_calls"] = [_call(call) for call in called]
    return {"type": kind, "data": data}


def _call(call: p.CallPart) -> Message:
    return {"name": call.name, "args": p.arguments_object(call), "id": call.id, "type": "tool_call"}


def _result(result: p.ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    content: Any = p.plain_text(result.content)
    if any(isinstance(part, p.MediaPart) for part in result.content):
        blocks = ((part, _block(part, sources, result)) for part in result.content)
        content = [held or {"type": "text", "text": p.plain_text([each])} for each, held in blocks]
    else:
        for part in result.content:
            if isinstance(part, p.OtherPart):
                sources.lose(result, what(part), f"a result of {NAME} has no block for it")
    status = "error" if result.failed else "success"
    data = {"content": content, "type": "tool", "tool_call_id": result.id, "status": status}
    return {"type": "tool", "data": data | ({"name": result.name} if result.name else {})}


def _block(part: Part, sources: Sources, within: Part | None = None) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, p.MediaPart):
        return _media(part)
    if isinstance(part, p.ThinkingPart):
        return _thinking(part)
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        return None
    if isinstance(part, p.OtherPart):
        sources.lose(within or part, what(part), f"{NAME} has no block for it")
    return None


def _media(part: p.MediaPart) -> Message:
    kind = {"document": "file"}.get(part.kind, part.kind)
    block: Message = {"type": kind}
    if part.file_id:
        block["file_id"] = part.file_id
    elif part.url:
        block["url"] = part.url
    else:
        block["base64"] = part.data
    if part.media_type:
        block["mime_type"] = part.media_type
    return block | ({"extras": {"name": part.name}} if part.name else {})


def _thinking(part: p.ThinkingPart) -> Message:
    if part.provider == "anthropic":
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if part.provider == "openai":
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        hidden = {"encrypted_content": part.signature} if part.signature else {}
        return {"type": "reasoning", "id": part.id, "summary": summary, **hidden}
    extras = {"signature": part.signature, "provider": part.provider}
    filled = {name: value for name, value in extras.items() if value}
    return {"type": "reasoning", "reasoning": part.text} | ({"extras": filled} if filled else {})
