"""`agent-framework`: messages of Microsoft's Agent Framework, as `Message.from_dict` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "Microsoft Agent Framework"


def read(message: Message) -> Speech:
    parts = [_part(p.mapped(each)) for each in p.listed(message.get("contents"))]
    contents = [part for part in parts if part is not None]
    role = message.get("role")
    if isinstance(role, Mapping):  # an enumeration, in older releases
        role = role.get("value")
    return Speech(p.text_of(role), contents, p.text_of(message.get("author_name")))


def _part(held: Mapping[str, Any]) -> Part | None:
    kind = p.text_of(held.get("type"))
    if kind == "text":
        return p.TextPart(p.text_of(held.get("text")), cited=bool(held.get("annotations")))
    if kind == "text_reasoning":
        hidden, id = p.text_of(held.get("protected_data")), p.text_of(held.get("id"))
        provider = p.mapped(held.get("additional_properties")).get("provider")
        return p.ThinkingPart(p.text_of(held.get("text")), hidden, p.text_of(provider), id)
    if kind in ("data", "uri"):
        media_type = p.text_of(held.get("media_type"))
        return p.media(p.kind_of_media(media_type), held.get("uri"), media_type, held.get("name"))
    if kind == "hosted_file":
        return p.MediaPart("document", file_id=p.text_of(held.get("file_id")))
    if kind == "function_call":
        arguments, id = p.given_arguments(held.get("arguments")), p.text_of(held.get("call_id"))
        return p.CallPart(p.text_of(held.get("name")), arguments, id)
    if kind == "function_result":
        result = held.get("result")
        items = [_part(p.mapped(each)) for each in p.listed(held.get("items"))]
        rich = any(isinstance(part, p.MediaPart) for part in items)
        blocks = [part for part in items if part is not None] if rich else []
        failed = held.get("exception") is not None
        return p.ResultPart(
            p.result_content(result, blocks), p.text_of(held.get("call_id")), "", failed
        )
    if kind == "usage":
        return None  # about the message, and not in it
    return p.OtherPart(kind or "a content without a type")


def kept(speech: Speech) -> Message | None:
    return speech.raw if speech.shape == "agent-framework" else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for speech in speeches:
        for parts in sources.by_home(speech.parts) if speech.role == "tool" else [speech.parts]:
            own = sources.own(parts)
            if own is not None:
                messages.append(own)
                continue
            contents = [held for part in parts if (held := _content(part, sources)) is not None]
            role = "system" if speech.role == "developer" else speech.role
            named = {"author_name": speech.name} if speech.name else {}
            if contents:
                messages.append({"type": "message", "role": role, "contents": contents, **named})
    return messages


def _content(part: Part, sources: Sources) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        arguments = p.arguments_object(part) if part.custom else part.arguments
        return {
            "type": "function_call",
            "call_id": part.id,
            "name": part.name,
            "arguments": arguments,
        }
    if isinstance(part, p.ResultPart):
        return _result(part, sources)
    if isinstance(part, p.MediaPart) and not part.file_id:
        return _media(part)
    if isinstance(part, p.MediaPart):
        return {"type": "hosted_file", "file_id": part.file_id}
    if isinstance(part, p.ThinkingPart) and not part.redacted:
        reasoning: Message = {"type": "text_reasoning", "text": part.text}
        if part.signature:
            reasoning["protected_data"] = part.signature
        if part.id:
            reasoning["id"] = part.id
        if part.provider:
            reasoning["additional_properties"] = {"provider": part.provider}
        return reasoning
    sources.lose(part, what(part), f"{NAME} has no content for it")
    return None


def _media(part: p.MediaPart) -> Message:
    fallback = {"document": "application/octet-stream"}.get(part.kind, f"{part.kind}/*")
    held = {"uri": p.data_url(part), "media_type": part.media_type or fallback}
    return {"type": "uri" if part.url else "data", **held}


def _result(result: p.ResultPart, sources: Sources) -> Message:
    items: list[Message] = []
    for part in result.content:
        if isinstance(part, p.MediaPart) and not part.file_id:
            items.append(_media(part))
        elif (text := p.plain_text([part])) or isinstance(part, p.TextPart):
            items.append({"type": "text", "text": text})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    content: Message = {"type": "function_result", "call_id": result.id}
    content["result"] = p.plain_text(result.content)
    if items:
        content["items"] = items
    return content | ({"exception": "the tool failed"} if result.failed else {})
