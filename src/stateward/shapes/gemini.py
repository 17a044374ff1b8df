"""`gemini`: contents of Google's Gemini, and the events of its ADK around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes.parts import (
    CallPart,
    DataPart,
    MediaPart,
    Message,
    OtherPart,
    ResultPart,
    Said,
    SaidPart,
    TextPart,
    ThinkingPart,
    arguments_object,
    first_of,
    given_arguments,
    kind_of_media,
    listed,
    mapped,
    plain_text,
    standard_base64,
    text_of,
)
from stateward.shapes.sources import Sources, alternated, what

IDS = re.compile(r".+")
NAME = "Gemini"
ROLES = {"model": "assistant", "user": "user", "function": "tool", "system": "system"}


def read(content: Message) -> Said:
    parts = [_part(mapped(part)) for part in listed(content.get("parts"))]
    role = ROLES.get(text_of(content.get("role")), "user")
    return Said(role, [part for part in parts if part is not None])


def read_event(event: Message) -> Said:
    """An event of ADK; one that only changes state says nothing."""
    said = read(dict(mapped(event.get("content"))))
    if event.get("partial"):
        return Said("", [])
    author = text_of(event.get("author"))
    if author != "user" and said.role == "user" and not _answers(said):
        said.role = "assistant"
    return said


def _answers(said: Said) -> bool:
    return any(isinstance(part, ResultPart) for part in said.parts)


def _part(part: Mapping[str, Any]) -> SaidPart | None:
    signature = standard_base64(first_of(part, "thoughtSignature", "thought_signature") or "")
    if part.get("thought") and isinstance(part.get("text"), str):
        return ThinkingPart(part["text"], signature, "gemini")
    if isinstance(part.get("text"), str):
        if signature and not part["text"]:
            return ThinkingPart("", signature, "gemini", redacted=True)
        return TextPart(part["text"])
    call = first_of(part, "functionCall", "function_call")
    if isinstance(call, Mapping):
        given = given_arguments(call.get("args"))
        id = text_of(call.get("id"))
        return CallPart(text_of(call.get("name")), given, id, signature=signature)
    told = first_of(part, "functionResponse", "function_response")
    if isinstance(told, Mapping):
        return _result(told)
    data = first_of(part, "inlineData", "inline_data")
    if isinstance(data, Mapping):
        kind = text_of(first_of(data, "mimeType", "mime_type"))
        name = text_of(first_of(data, "displayName", "display_name"))
        held = standard_base64(data.get("data"))
        return MediaPart(kind_of_media(kind), kind, data=held, name=name)
    file = first_of(part, "fileData", "file_data")
    if isinstance(file, Mapping):
        kind = text_of(first_of(file, "mimeType", "mime_type"))
        url = text_of(first_of(file, "fileUri", "file_uri"))
        return MediaPart(kind_of_media(kind), kind, url=url)
    return OtherPart(next(iter(part))) if part else None


def _result(told: Mapping[str, Any]) -> ResultPart:
    """What Google's own code puts a value into is taken off again."""
    response = told.get("response")
    failed = False
    value: Any = response
    if isinstance(response, dict) and len(response) == 1:
        for name in ("result", "output", "error"):
            if name in response:
                value, failed = response[name], name == "error"
    content: list[Any] = [TextPart(value)] if isinstance(value, str) else [DataPart(value)]
    if response is None:
        content = []
    for part in listed(told.get("parts")):
        held = _part(mapped(part))
        if isinstance(held, MediaPart):
            content.append(held)
    return ResultPart(tuple(content), text_of(told.get("id")), text_of(told.get("name")), failed)


def kept(said: Said) -> Message | None:
    if said.shape == "gemini":
        return said.raw
    if said.shape == "adk" and said.parts:
        return dict(mapped(said.raw.get("content")))
    return None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    return alternated(saids, sources, NAME, ("model", "parts"), _block)


def _block(part: SaidPart, sources: Sources) -> Message | None:
    if isinstance(part, TextPart):
        return {"text": part.text} if part.text else None
    if isinstance(part, CallPart):
        signed = {"thoughtSignature": part.signature} if part.signature else {}
        call = {"id": part.id, "name": part.name, "args": arguments_object(part)}
        return {"functionCall": call, **signed}
    if isinstance(part, ResultPart):
        return {"functionResponse": _response(part, sources)}
    if isinstance(part, MediaPart) and (held := _media(part)):
        return held
    if isinstance(part, ThinkingPart):
        own = part.provider == "gemini"
        if part.signature and not own:
            sources.lose(part, "signature", f"{NAME} takes only its own")
        signed = {"thoughtSignature": part.signature} if part.signature and own else {}
        if part.text:
            return {"text": part.text, "thought": True, **signed}
        if signed:
            return {"text": "", **signed}
        return None
    sources.lose(part, what(part), f"{NAME} has no part for it")
    return None


def _response(result: ResultPart, sources: Sources) -> Message:
    media: list[Message] = []
    data: Any = None
    spoken: list[Any] = []
    for part in result.content:
        if isinstance(part, DataPart | TextPart):
            spoken.append(part)
        elif isinstance(part, MediaPart) and part.data:
            media.append({"inlineData": {"mimeType": part.media_type, "data": part.data}})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no part for it")
    only = spoken[0] if len(spoken) == 1 else None
    data = only.value if isinstance(only, DataPart) else plain_text(spoken)
    wrapped = {"error" if result.failed else "result": data}
    whole = isinstance(data, dict) and not result.failed and not _looks_wrapped(data)
    told: Message = {"id": result.id, "name": result.name, "response": data if whole else wrapped}
    return told | ({"parts": media} if media else {})


def _looks_wrapped(data: Mapping[str, Any]) -> bool:
    return len(data) == 1 and not {"result", "output", "error"}.isdisjoint(data)


def _media(part: MediaPart) -> Message | None:
    if part.data and part.media_type:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    if part.url:
        kind = part.media_type or {"document": "application/pdf"}.get(part.kind, f"{part.kind}/*")
        return {"fileData": {"mimeType": kind, "fileUri": part.url}}
    return None
