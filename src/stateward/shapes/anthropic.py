"""`anthropic`: messages of Anthropic's API, and the entries of Claude's transcripts around them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stateward.shapes import parts as p
from stateward.shapes.blocks import read_content
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, alternated, what

IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = "Anthropic"
ROLES = ("user", "assistant")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def read(message: Message) -> Speech:
    role = p.text_of(message.get("role"))
    return Speech(role, read_content(message.get("content")), turn=p.text_of(message.get("id")))


def read_entry(entry: Message) -> Speech:
    """Return the message in an entry of a transcript; an entry without one says nothing."""
    message = entry.get("message")
    if not isinstance(message, dict):
        return Speech("", [])
    speech = read(message)
    if speech.role not in ROLES or speech.role != entry["type"]:
        speech.role = f"{p.text_of(entry['type'])} or {speech.role}"
    return speech


def kept(speech: Speech) -> Message | None:
    raw = speech.raw
    if speech.shape == "claude":
        raw = dict(p.mapped(raw.get("message")))
    elif speech.shape == "plain":
        return raw if raw["role"] in ROLES and raw.keys() == {"role", "content"} else None
    elif speech.shape != "anthropic":
        return None
    if speech.role not in ROLES:
        return None
    answer = "model" in raw or speech.shape == "claude"  # as the API gave it: more than it takes
    return {"role": raw["role"], "content": raw.get("content", [])} if answer else raw


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    return alternated(speeches, sources, NAME, ("assistant", "content"), _block)


def _block(part: Part, sources: Sources) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        input = p.arguments_object(part)
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": input}
    if isinstance(part, p.ResultPart):
        failed = {"is_error": True} if part.failed else {}
        content = _content(part, sources)
        return {"type": "tool_result", "tool_use_id": part.id, "content": content, **failed}
    if isinstance(part, p.MediaPart) and (held := _media(part)):
        return held
    if isinstance(part, p.ThinkingPart) and part.provider == "anthropic" and part.signature:
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    why = "takes only what it signed" if isinstance(part, p.ThinkingPart) else "has no block for it"
    sources.lose(part, what(part), f"{NAME} {why}")
    return None


def _content(result: p.ResultPart, sources: Sources) -> str | list[Message]:
    if len(result.content) == 1 and (text := p.plain_text(result.content)):
        return text
    blocks: list[Message] = []
    for part in result.content:
        held = _media(part) if isinstance(part, p.MediaPart) else None
        if held is not None:
            blocks.append(held)
        elif text := p.plain_text([part]):
            blocks.append({"type": "text", "text": text})
        elif not isinstance(part, p.TextPart):
            sources.lose(result, what(part), f"a result of {NAME} has no block for it")
    return blocks or ""


def _media(part: p.MediaPart) -> Message | None:
    if part.kind == "image" and part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    if part.kind == "image" and part.media_type in IMAGES:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    if part.kind != "document" or part.file_id:
        return None
    named = {"title": part.name} if part.name else {}
    if part.url:
        return {"type": "document", "source": {"type": "url", "url": part.url}, **named}
    if part.media_type == "application/pdf":
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "document", "source": source, **named}
    if part.media_type == "text/plain":
        text = p.data_bytes(part).decode("utf-8", "replace")
        source = {"type": "text", "media_type": part.media_type, "data": text}
        return {"type": "document", "source": source, **named}
    return None
