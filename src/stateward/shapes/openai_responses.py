"""`openai-responses`: items of OpenAI's Responses and Conversations APIs, and of its Agents SDK."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.blocks import read_block, read_content
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".{1,64}")
NAME = "OpenAI Responses"
PLAIN = frozenset({"role", "content"})


def read(message: Message) -> Speech:
    role = message.get("role")
    if isinstance(role, str):
        return Speech(role, read_content(message.get("content")))
    parts = list(read_block(message))
    answers = isinstance(parts[0], p.ResultPart) or p.text_of(message.get("type")).endswith(
        "_output"
    )
    return Speech("tool" if answers else "assistant", parts)


def kept(speech: Speech) -> Message | None:
    if speech.shape == "openai-responses":
        return speech.raw
    plain = speech.shape == "plain" and speech.raw.keys() <= PLAIN
    return speech.raw if plain and isinstance(speech.raw["content"], str) else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    items: list[Message] = []
    for speech in speeches:
        for parts in sources.by_home(speech.parts):
            own = sources.own(parts)
            if own is not None:
                items.append(own)
                continue
            sources.lose_name(parts, NAME)
            if speech.role in ("assistant", "tool"):
                items += (item for part in parts if (item := _item(part, sources)))
            elif content := _content(speech.role, parts, sources):
                items.append({"role": speech.role, "content": content})
    return items


def _item(part: Part, sources: Sources) -> Message | None:
    """Return the item for a part that the model or a tool made."""
    if isinstance(part, p.TextPart) and part.text:
        if part.refusal:
            sources.lose(part, "refusal", f"{NAME} takes it only as it made it: written as text")
        return {"role": "assistant", "content": part.text}
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        named = {"call_id": part.id, "name": part.name}
        if part.custom:
            return {"type": "custom_tool_call", **named, "input": part.arguments}
        return {"type": "function_call", **named, "arguments": p.arguments_text(part)}
    if isinstance(part, p.ResultPart):
        if part.failed:
            sources.lose(part, "failure", f"{NAME} has no mark for it: only its text says so")
        output = _output(part, sources)
        return {"type": "function_call_output", "call_id": part.id, "output": output}
    if isinstance(part, p.ThinkingPart) and part.provider == "openai" and part.id:
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        hidden = {"encrypted_content": part.signature} if part.signature else {}
        return {"type": "reasoning", "id": part.id, "summary": summary, **hidden}
    if not isinstance(part, p.TextPart):
        sources.lose(part, what(part), f"{NAME} has no item for it that it did not make itself")
    return None


def _output(result: p.ResultPart, sources: Sources) -> str | list[Message]:
    if not any(isinstance(part, p.MediaPart) for part in result.content):
        for part in result.content:
            if not isinstance(part, p.TextPart) and not p.plain_text([part]):
                sources.lose(result, what(part), f"a result of {NAME} has no place for it")
        return p.plain_text(result.content)
    blocks: list[Message] = []
    for part in result.content:
        held = _input(part) if isinstance(part, p.MediaPart) else None
        if held is not None:
            blocks.append(held)
        elif text := p.plain_text([part]):
            blocks.append({"type": "input_text", "text": text})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    return blocks


def _content(role: str, parts: Sequence[Part], sources: Sources) -> Any:
    if all(isinstance(part, p.TextPart) for part in parts) and len(parts) == 1:
        return p.plain_text(parts)
    blocks: list[Message] = []
    for part in parts:
        if isinstance(part, p.TextPart):
            blocks.append({"type": "input_text", "text": part.text})
        elif isinstance(part, p.MediaPart) and role == "user" and (held := _input(part)):
            blocks.append(held)
        else:
            sources.lose(part, what(part), f"{NAME} has no place for it in a message of this role")
    return blocks


def _input(part: p.MediaPart) -> Message | None:
    if part.kind == "image":
        place = {"file_id": part.file_id} if part.file_id else {"image_url": p.data_url(part)}
        return {"type": "input_image", "detail": "auto", **place}
    if part.kind == "document":
        if part.file_id:
            return {"type": "input_file", "file_id": part.file_id}
        if part.url:
            return {"type": "input_file", "file_url": part.url}
        named = {"filename": part.name or "document"}
        return {"type": "input_file", **named, "file_data": p.data_url(part)}
    return None
