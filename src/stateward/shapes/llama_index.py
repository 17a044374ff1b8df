"""`llama-index`: chat messages of LlamaIndex, as `ChatMessage.model_validate` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.openai_chat import read_call
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "LlamaIndex"
ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
FIELDS = {"image": "image", "audio": "audio", "video": "video", "document": "data"}


def read(message: Message) -> Speech:
    extra = p.mapped(message.get("additional_kwargs"))
    parts = [_part(p.mapped(block)) for block in p.listed(message.get("blocks"))]
    role = p.text_of(message.get("role"))
    role = ROLES.get(role, role)
    if role == "tool":
        id, name = p.text_of(extra.get("tool_call_id")), p.text_of(extra.get("name"))
        failed = extra.get("is_error") is True
        return Speech("tool", [p.ResultPart(p.result_content(None, parts), id, name, failed)])
    if not any(isinstance(part, p.CallPart) for part in parts):
        parts += (read_call(call) for call in p.listed(extra.get("tool_calls")))
    return Speech(role, parts)


def _part(block: Mapping[str, Any]) -> Part:
    kind = p.text_of(block.get("block_type"))
    if kind == "text":
        return p.TextPart(p.text_of(block.get("text")))
    if kind == "thinking":
        more = p.mapped(block.get("additional_information"))
        signature, provider = p.text_of(more.get("signature")), p.text_of(more.get("provider"))
        provider = provider or ("anthropic" if signature else "")
        return p.ThinkingPart(
            p.text_of(block.get("content")), signature, provider, p.text_of(more.get("id"))
        )
    if kind == "tool_call":
        arguments, id = (
            p.given_arguments(block.get("tool_kwargs")),
            p.text_of(block.get("tool_call_id")),
        )
        return p.CallPart(p.text_of(block.get("tool_name")), arguments, id)
    if kind in FIELDS:
        media_type = p.text_of(block.get(f"{kind}_mimetype"))
        if kind == "audio" and not media_type and isinstance(block.get("format"), str):
            media_type = f"audio/{block['format']}"
        url, data = p.text_of(block.get("url")), block.get(FIELDS[kind])
        if url or data:
            held = p.standard_base64(data) if data else ""
            kind = kind if kind != "document" else p.kind_of_media(media_type)
            return p.MediaPart(kind, media_type, held, url, name=p.text_of(block.get("title")))
    return p.OtherPart(kind or "a block without a type")


def kept(speech: Speech) -> Message | None:
    return speech.raw if speech.shape == "llama-index" else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for speech in speeches:
        if speech.role == "tool":
            messages += (_result(result, sources) for result in p.results(speech.parts))
            continue
        own = sources.own(speech.parts)
        if own is not None:
            messages.append(own)
            continue
        sources.lose_name(speech.parts, NAME)
        blocks = [held for part in speech.parts if (held := _block(part, sources)) is not None]
        if blocks:
            messages.append({"role": speech.role, "additional_kwargs": {}, "blocks": blocks})
    return messages


def _block(part: Part, sources: Sources, within: Part | None = None) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"block_type": "text", "text": part.text}
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        named = {"tool_call_id": part.id, "tool_name": part.name}
        return {"block_type": "tool_call", **named, "tool_kwargs": p.arguments_object(part)}
    if isinstance(part, p.MediaPart) and not part.file_id:
        held = {"url": part.url} if part.url else {FIELDS[part.kind]: part.data}
        block: Message = {"block_type": part.kind, **held}
        if part.media_type and part.kind != "audio":
            block[f"{part.kind}_mimetype"] = part.media_type
        elif part.media_type:
            block["format"] = part.media_type.split("/", 1)[-1]
        return block | ({"title": part.name} if part.name and part.kind == "document" else {})
    if isinstance(part, p.ThinkingPart) and not part.redacted:
        more = {"signature": part.signature, "provider": part.provider, "id": part.id}
        information = {name: value for name, value in more.items() if value}
        return {
            "block_type": "thinking",
            "content": part.text,
            "additional_information": information,
        }
    sources.lose(within or part, what(part), f"{NAME} has no block for it")
    return None


def _result(result: p.ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    blocks: list[Message] = []
    for part in result.content:
        if not isinstance(part, p.MediaPart | p.OtherPart):
            blocks.append({"block_type": "text", "text": p.plain_text([part])})
        elif (held := _block(part, sources, result)) is not None:
            blocks.append(held)
    extra: Message = {"tool_call_id": result.id, "name": result.name}
    extra |= {"is_error": True} if result.failed else {}
    return {"role": "tool", "additional_kwargs": extra, "blocks": blocks}
