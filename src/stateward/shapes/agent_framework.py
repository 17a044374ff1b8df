"""`agent-framework`: messages of Microsoft's Agent Framework, as `Message.from_dict` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    data_url,
    given_arguments,
    kind_of_media,
    listed,
    mapped,
    media,
    plain_text,
    result_content,
    text_of,
)
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "Microsoft Agent Framework"


def read(message: Message) -> Said:
    parts = [_part(mapped(each)) for each in listed(message.get("contents"))]
    found = [part for part in parts if part is not None]
    role = message.get("role")
    if isinstance(role, Mapping):  # an enumeration, in older releases
        role = role.get("value")
    return Said(text_of(role), found, text_of(message.get("author_name")))


def _part(held: Mapping[str, Any]) -> SaidPart | None:
    kind = text_of(held.get("type"))
    if kind == "text":
        return TextPart(text_of(held.get("text")), cited=bool(held.get("annotations")))
    if kind == "text_reasoning":
        hidden, id = text_of(held.get("protected_data")), text_of(held.get("id"))
        told = mapped(held.get("additional_properties")).get("provider")
        return ThinkingPart(text_of(held.get("text")), hidden, text_of(told), id)
    if kind in ("data", "uri"):
        told = text_of(held.get("media_type"))
        return media(kind_of_media(told), held.get("uri"), told, held.get("name"))
    if kind == "hosted_file":
        return MediaPart("document", file_id=text_of(held.get("file_id")))
    if kind == "function_call":
        given, id = given_arguments(held.get("arguments")), text_of(held.get("call_id"))
        return CallPart(text_of(held.get("name")), given, id)
    if kind == "function_result":
        told = held.get("result")
        items = [_part(mapped(each)) for each in listed(held.get("items"))]
        rich = any(isinstance(part, MediaPart) for part in items)
        blocks = [part for part in items if part is not None] if rich else []
        failed = held.get("exception") is not None
        return ResultPart(result_content(told, blocks), text_of(held.get("call_id")), "", failed)
    if kind == "usage":
        return None  # about the message, and not in it
    return OtherPart(kind or "a content without a type")


def kept(said: Said) -> Message | None:
    return said.raw if said.shape == "agent-framework" else None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for said in saids:
        for parts in sources.by_home(said.parts) if said.role == "tool" else [said.parts]:
            own = sources.own(parts)
            if own is not None:
                messages.append(own)
                continue
            contents = [held for part in parts if (held := _content(part, sources)) is not None]
            role = "system" if said.role == "developer" else said.role
            named = {"author_name": said.name} if said.name else {}
            if contents:
                messages.append({"type": "message", "role": role, "contents": contents, **named})
    return messages


def _content(part: SaidPart, sources: Sources) -> Message | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, CallPart):
        if part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
        given = arguments_object(part) if part.custom else part.arguments
        return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": given}
    if isinstance(part, ResultPart):
        return _result(part, sources)
    if isinstance(part, MediaPart) and not part.file_id:
        return _media(part)
    if isinstance(part, MediaPart):
        return {"type": "hosted_file", "file_id": part.file_id}
    if isinstance(part, ThinkingPart) and not part.redacted:
        told: Message = {"type": "text_reasoning", "text": part.text}
        if part.signature:
            told["protected_data"] = part.signature
        if part.id:
            told["id"] = part.id
        if part.provider:
            told["additional_properties"] = {"provider": part.provider}
        return told
    sources.lose(part, what(part), f"{NAME} has no content for it")
    return None


def _media(part: MediaPart) -> Message:
    fallback = {"document": "application/octet-stream"}.get(part.kind, f"{part.kind}/*")
    held = {"uri": data_url(part), "media_type": part.media_type or fallback}
    return {"type": "uri" if part.url else "data", **held}


def _result(result: ResultPart, sources: Sources) -> Message:
    items: list[Message] = []
    for part in result.content:
        if isinstance(part, MediaPart) and not part.file_id:
            items.append(_media(part))
        elif (text := plain_text([part])) or isinstance(part, TextPart):
            items.append({"type": "text", "text": text})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    told: Message = {"type": "function_result", "call_id": result.id}
    told["result"] = plain_text(result.content)
    if items:
        told["items"] = items
    return told | ({"exception": "the tool failed"} if result.failed else {})
