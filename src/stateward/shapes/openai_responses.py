"""`openai-responses`: items of OpenAI's Responses and Conversations APIs, and of its Agents SDK."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stateward.shapes.blocks import read_block, read_content
from stateward.shapes.parts import (
    CallPart,
    MediaPart,
    Message,
    ResultPart,
    Said,
    SaidPart,
    TextPart,
    ThinkingPart,
    arguments_text,
    data_url,
    plain_text,
    text_of,
)
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".{1,64}")
NAME = "OpenAI Responses"
PLAIN = frozenset({"role", "content"})


def read(message: Message) -> Said:
    role = message.get("role")
    if isinstance(role, str):
        return Said(role, read_content(message.get("content")))
    parts = list(read_block(message))
    answers = isinstance(parts[0], ResultPart) or text_of(message.get("type")).endswith("_output")
    return Said("tool" if answers else "assistant", parts)


def kept(said: Said) -> Message | None:
    if said.shape == "openai-responses":
        return said.raw
    plain = said.shape == "plain" and said.raw.keys() <= PLAIN
    return said.raw if plain and isinstance(said.raw["content"], str) else None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    items: list[Message] = []
    for said in saids:
        for parts in sources.by_home(said.parts):
            own = sources.own(parts)
            if own is not None:
                items.append(own)
                continue
            sources.lose_name(parts, NAME)
            if said.role in ("assistant", "tool"):
                items += (item for part in parts if (item := _item(part, sources)))
            elif content := _content(said.role, parts, sources):
                items.append({"role": said.role, "content": content})
    return items


def _item(part: SaidPart, sources: Sources) -> Message | None:
    """What the model or a tool made."""
    if isinstance(part, TextPart) and part.text:
        if part.refusal:
            sources.lose(part, "refusal", f"{NAME} takes it only as it made it: written as text")
        return {"role": "assistant", "content": part.text}
    if isinstance(part, CallPart):
        if part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
        named = {"call_id": part.id, "name": part.name}
        if part.custom:
            return {"type": "custom_tool_call", **named, "input": part.arguments}
        return {"type": "function_call", **named, "arguments": arguments_text(part)}
    if isinstance(part, ResultPart):
        if part.failed:
            sources.lose(part, "failure", f"{NAME} has no mark for it: only its text says so")
        output = _output(part, sources)
        return {"type": "function_call_output", "call_id": part.id, "output": output}
    if isinstance(part, ThinkingPart) and part.provider == "openai" and part.id:
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        hidden = {"encrypted_content": part.signature} if part.signature else {}
        return {"type": "reasoning", "id": part.id, "summary": summary, **hidden}
    if not isinstance(part, TextPart):
        sources.lose(part, what(part), f"{NAME} has no item for it that it did not make itself")
    return None


def _output(result: ResultPart, sources: Sources) -> str | list[Message]:
    if not any(isinstance(part, MediaPart) for part in result.content):
        for part in result.content:
            if not isinstance(part, TextPart) and not plain_text([part]):
                sources.lose(result, what(part), f"a result of {NAME} has no place for it")
        return plain_text(result.content)
    found: list[Message] = []
    for part in result.content:
        held = _input(part) if isinstance(part, MediaPart) else None
        if held is not None:
            found.append(held)
        elif text := plain_text([part]):
            found.append({"type": "input_text", "text": text})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    return found


def _content(role: str, parts: Sequence[SaidPart], sources: Sources) -> Any:
    if all(isinstance(part, TextPart) for part in parts) and len(parts) == 1:
        return plain_text(parts)
    found: list[Message] = []
    for part in parts:
        if isinstance(part, TextPart):
            found.append({"type": "input_text", "text": part.text})
        elif isinstance(part, MediaPart) and role == "user" and (held := _input(part)):
            found.append(held)
        else:
            sources.lose(part, what(part), f"{NAME} has no place for it in a message of this role")
    return found


def _input(part: MediaPart) -> Message | None:
    if part.kind == "image":
        place = {"file_id": part.file_id} if part.file_id else {"image_url": data_url(part)}
        return {"type": "input_image", "detail": "auto", **place}
    if part.kind == "document":
        if part.file_id:
            return {"type": "input_file", "file_id": part.file_id}
        if part.url:
            return {"type": "input_file", "file_url": part.url}
        named = {"filename": part.name or "document"}
        return {"type": "input_file", **named, "file_data": data_url(part)}
    return None
