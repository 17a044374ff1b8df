"""`langchain`: messages of LangChain and LangGraph, as `messages_from_dict` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes.blocks import read_content
from stateward.shapes.openai_chat import read_call
from stateward.shapes.parts import (
    CallPart,
    MediaPart,
    Message,
    OtherPart,
    ResultPart,
    Said,
    SaidPart,
    TextPart,
    ThinkingPart,
    arguments_object,
    calls,
    listed,
    mapped,
    plain_text,
    result_content,
    results,
    text_of,
)
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
        return text_of(message[MESSAGE]), mapped(message.get("data"))
    kind = text_of(message.get("type"))
    if kind == "constructor":
        path = listed(message.get("id"))
        name = text_of(path[-1]) if path else ""
        return CLASSES.get(name, ""), mapped(message.get("kwargs"))
    if isinstance(message.get("data"), Mapping):
        return kind, message["data"]
    return kind, message


def read(message: Message) -> Said:
    kind, held = unwrapped(message)
    role, told = ROLES.get(kind, ""), held.get("content")
    name = text_of(held.get("name"))
    if role == "tool":
        blocks = read_content(told) if isinstance(told, list) else []
        id, failed = text_of(held.get("tool_call_id")), held.get("status") == "error"
        return Said("tool", [ResultPart(result_content(told, blocks), id, name, failed)])
    parts = read_content(told)
    extra = mapped(held.get("additional_kwargs"))
    made = [read_call(call) for call in listed(held.get("tool_calls"))]
    made += (read_call(call) for call in listed(held.get("invalid_tool_calls")))
    if role == "assistant" and not made:
        made = [read_call(call) for call in listed(extra.get("tool_calls"))]
    if made:  # blocks name them a second time
        said = {call.id for call in made}
        parts = [p for p in parts if not isinstance(p, CallPart) or p.id not in said]
    if extra.get("__openai_role__") == "developer":
        role = "developer"
    return Said(role, [*parts, *made], name)


def kept(said: Said) -> Message | None:
    if said.shape != "langchain" or not said.role:
        return None
    if said.raw.keys() == {"type", "data"}:
        return said.raw
    kind, held = unwrapped(said.raw)
    return {"type": kind, "data": dict(held)}


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for said in saids:
        if said.role == "tool":
            messages += (_result(result, sources) for result in results(said.parts))
            continue
        own = sources.own(said.parts)
        messages.append(own if own is not None else _message(said, sources))
    return messages


def _message(said: Said, sources: Sources) -> Message:
    blocks = [b for part in said.parts if (b := _block(part, sources)) is not None]
    only = len(blocks) == 1 and blocks[0]["type"] == "text"
    kind = TYPES[said.role]
    data: Message = {"content": blocks[0]["text"] if only else blocks or "", "type": kind}
    if said.name:
        data["name"] = said.name
    if said.role == "developer":
        data["additional_kwargs"] = {"__openai_role__": "developer"}
    if called := calls(said.parts):
        sources.mark_order(said.parts, NAME)
        data["tool_calls"] = [_call(call) for call in called]
    return {"type": kind, "data": data}


def _call(call: CallPart) -> Message:
    return {"name": call.name, "args": arguments_object(call), "id": call.id, "type": "tool_call"}


def _result(result: ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    content: Any = plain_text(result.content)
    if any(isinstance(part, MediaPart) for part in result.content):
        found = ((part, _block(part, sources, result)) for part in result.content)
        content = [held or {"type": "text", "text": plain_text([p])} for p, held in found]
    else:
        for part in result.content:
            if isinstance(part, OtherPart):
                sources.lose(result, what(part), f"a result of {NAME} has no block for it")
    status = "error" if result.failed else "success"
    data = {"content": content, "type": "tool", "tool_call_id": result.id, "status": status}
    return {"type": "tool", "data": data | ({"name": result.name} if result.name else {})}


def _block(part: SaidPart, sources: Sources, within: SaidPart | None = None) -> Message | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, MediaPart):
        return _media(part)
    if isinstance(part, ThinkingPart):
        return _thinking(part)
    if isinstance(part, CallPart):
        if part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
        return None
    if isinstance(part, OtherPart):
        sources.lose(within or part, what(part), f"{NAME} has no block for it")
    return None


def _media(part: MediaPart) -> Message:
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


def _thinking(part: ThinkingPart) -> Message:
    if part.provider == "anthropic":
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if part.provider == "openai":
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        hidden = {"encrypted_content": part.signature} if part.signature else {}
        return {"type": "reasoning", "id": part.id, "summary": summary, **hidden}
    extras = {"signature": part.signature, "provider": part.provider}
    told = {name: value for name, value in extras.items() if value}
    return {"type": "reasoning", "reasoning": part.text} | ({"extras": told} if told else {})
