"""`llama-index`: chat messages of LlamaIndex, as `ChatMessage.model_validate` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    given_arguments,
    kind_of_media,
    listed,
    mapped,
    plain_text,
    result_content,
    results,
    standard_base64,
    text_of,
)
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "LlamaIndex"
ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
FIELDS = {"image": "image", "audio": "audio", "video": "video", "document": "data"}


def read(message: Message) -> Said:
    extra = mapped(message.get("additional_kwargs"))
    found = [_part(mapped(block)) for block in listed(message.get("blocks"))]
    role = text_of(message.get("role"))
    role = ROLES.get(role, role)
    if role == "tool":
        id, name = text_of(extra.get("tool_call_id")), text_of(extra.get("name"))
        failed = extra.get("is_error") is True
        return Said("tool", [ResultPart(result_content(None, found), id, name, failed)])
    if not any(isinstance(part, CallPart) for part in found):
        found += (read_call(call) for call in listed(extra.get("tool_calls")))
    return Said(role, found)


def _part(block: Mapping[str, Any]) -> SaidPart:
    kind = text_of(block.get("block_type"))
    if kind == "text":
        return TextPart(text_of(block.get("text")))
    if kind == "thinking":
        more = mapped(block.get("additional_information"))
        signature, provider = text_of(more.get("signature")), text_of(more.get("provider"))
        provider = provider or ("anthropic" if signature else "")
        return ThinkingPart(
            text_of(block.get("content")), signature, provider, text_of(more.get("id"))
        )
    if kind == "tool_call":
        given, id = given_arguments(block.get("tool_kwargs")), text_of(block.get("tool_call_id"))
        return CallPart(text_of(block.get("tool_name")), given, id)
    if kind in FIELDS:
        told = text_of(block.get(f"{kind}_mimetype"))
        if kind == "audio" and not told and isinstance(block.get("format"), str):
            told = f"audio/{block['format']}"
        url, data = text_of(block.get("url")), block.get(FIELDS[kind])
        if url or data:
            held = standard_base64(data) if data else ""
            kind = kind if kind != "document" else kind_of_media(told)
            return MediaPart(kind, told, held, url, name=text_of(block.get("title")))
    return OtherPart(kind or "a block without a type")


def kept(said: Said) -> Message | None:
    return said.raw if said.shape == "llama-index" else None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for said in saids:
        if said.role == "tool":
            messages += (_result(result, sources) for result in results(said.parts))
            continue
        own = sources.own(said.parts)
        if own is not None:
            messages.append(own)
            continue
        sources.lose_name(said.parts, NAME)
        blocks = [held for part in said.parts if (held := _block(part, sources)) is not None]
        if blocks:
            messages.append({"role": said.role, "additional_kwargs": {}, "blocks": blocks})
    return messages


def _block(part: SaidPart, sources: Sources, within: SaidPart | None = None) -> Message | None:
    if isinstance(part, TextPart):
        return {"block_type": "text", "text": part.text}
    if isinstance(part, CallPart):
        if part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
        named = {"tool_call_id": part.id, "tool_name": part.name}
        return {"block_type": "tool_call", **named, "tool_kwargs": arguments_object(part)}
    if isinstance(part, MediaPart) and not part.file_id:
        held = {"url": part.url} if part.url else {FIELDS[part.kind]: part.data}
        told: Message = {"block_type": part.kind, **held}
        if part.media_type and part.kind != "audio":
            told[f"{part.kind}_mimetype"] = part.media_type
        elif part.media_type:
            told["format"] = part.media_type.split("/", 1)[-1]
        return told | ({"title": part.name} if part.name and part.kind == "document" else {})
    if isinstance(part, ThinkingPart) and not part.redacted:
        more = {"signature": part.signature, "provider": part.provider, "id": part.id}
        known = {name: value for name, value in more.items() if value}
        return {"block_type": "thinking", "content": part.text, "additional_information": known}
    sources.lose(within or part, what(part), f"{NAME} has no block for it")
    return None


def _result(result: ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    blocks: list[Message] = []
    for part in result.content:
        if not isinstance(part, MediaPart | OtherPart):
            blocks.append({"block_type": "text", "text": plain_text([part])})
        elif (held := _block(part, sources, result)) is not None:
            blocks.append(held)
    extra: Message = {"tool_call_id": result.id, "name": result.name}
    extra |= {"is_error": True} if result.failed else {}
    return {"role": "tool", "additional_kwargs": extra, "blocks": blocks}
