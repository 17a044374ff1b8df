"""`gemini`: contents of Google's Gemini, and the events of its ADK around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, alternated, what

IDS = re.compile(r".+")
NAME = "Gemini"
ROLES = {"model": "assistant", "user": "user", "system": "system", "": "user"}
ROLES |= {"function": "tool", "tool": "tool"}
FIELDS = frozenset(
    {"text", "functionCall", "functionResponse", "inlineData", "fileData", "thought"}
)
FIELDS |= {"function_call", "function_response", "inline_data", "file_data"}
FIELDS |= {"executableCode", "executable_code", "codeExecutionResult", "code_execution_result"}
TYPED = frozenset({"type", "kind", "part_kind", "block_type"})  # in the parts of other shapes


def is_content(content: Mapping[str, Any]) -> bool:
    """Return whether it has a role of Gemini's (without one, the user's) and parts of Gemini's."""
    parts = content["parts"]
    if (content.get("role") or "") not in ROLES:
        return False
    return all(isinstance(part, Mapping) and TYPED.isdisjoint(part) for part in parts) and any(
        not FIELDS.isdisjoint(part) for part in parts or ({"text": ""},)
    )


def read(content: Message) -> Speech:
    parts = [_part(p.mapped(part)) for part in p.listed(content.get("parts"))]
    role = p.text_of(content.get("role"))
    return Speech(ROLES.get(role, role), [part for part in parts if part is not None])


def read_event(event: Message) -> Speech:
    """An event of ADK; one that only changes state says nothing."""
    speech = read(dict(p.mapped(event.get("content"))))
    if event.get("partial"):
        return Speech("", [])
    author = p.text_of(event.get("author"))
    if author != "user" and speech.role == "user" and not _only_answers(speech):
        speech.role = "assistant"
    return speech


def _only_answers(speech: Speech) -> bool:
    return bool(speech.parts) and all(isinstance(part, p.ResultPart) for part in speech.parts)


def _part(part: Mapping[str, Any]) -> Part | None:
    signature = p.standard_base64(p.first_of(part, "thoughtSignature", "thought_signature") or "")
    if part.get("thought") and isinstance(part.get("text"), str):
        return p.ThinkingPart(part["text"], signature, "gemini")
    if isinstance(part.get("text"), str):
        if signature and not part["text"]:
            return p.ThinkingPart("", signature, "gemini", redacted=True)
        return p.TextPart(part["text"])
    call = p.first_of(part, "functionCall", "function_call")
    if isinstance(call, Mapping):
        arguments = p.given_arguments(call.get("args"))
        id = p.text_of(call.get("id"))
        return p.CallPart(p.text_of(call.get("name")), arguments, id, signature=signature)
    response = p.first_of(part, "functionResponse", "function_response")
    if isinstance(response, Mapping):
        return _result(response)
    data = p.first_of(part, "inlineData", "inline_data")
    if isinstance(data, Mapping):
        kind = p.text_of(p.first_of(data, "mimeType", "mime_type"))
        name = p.text_of(p.first_of(data, "displayName", "display_name"))
        held = p.standard_base64(data.get("data"))
        return p.MediaPart(p.kind_of_media(kind), kind, data=held, name=name)
    file = p.first_of(part, "fileData", "file_data")
    if isinstance(file, Mapping):
        kind = p.text_of(p.first_of(file, "mimeType", "mime_type"))
        url = p.text_of(p.first_of(file, "fileUri", "file_uri"))
        return p.MediaPart(p.kind_of_media(kind), kind, url=url)
    return p.OtherPart(next(iter(part))) if part else None


def _result(block: Mapping[str, Any]) -> p.ResultPart:
    """Return a result without the object that Google's own code puts a plain value into."""
    response = block.get("response")
    failed = False
    value: Any = response
    if isinstance(response, dict) and len(response) == 1:
        for name in ("result", "output", "error"):
            if name in response:
                value, failed = response[name], name == "error"
    content: list[Any] = [p.TextPart(value)] if isinstance(value, str) else [p.DataPart(value)]
    if response is None:
        content = []
    for part in p.listed(block.get("parts")):
        held = _part(p.mapped(part))
        if isinstance(held, p.MediaPart):
            content.append(held)
    return p.ResultPart(
        tuple(content), p.text_of(block.get("id")), p.text_of(block.get("name")), failed
    )


def kept(speech: Speech) -> Message | None:
    if speech.shape == "gemini":
        return speech.raw
    if speech.shape == "adk" and speech.parts:
        content = dict(p.mapped(speech.raw.get("content")))
        return content | ({"role": "model"} if speech.role == "assistant" else {})
    return None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    return alternated(speeches, sources, NAME, ("model", "parts"), _block)


def _block(part: Part, sources: Sources) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"text": part.text} if part.text else None
    if isinstance(part, p.CallPart):
        signed = {"thoughtSignature": part.signature} if part.signature else {}
        call = {"id": part.id, "name": part.name, "args": p.arguments_object(part)}
        return {"functionCall": call, **signed}
    if isinstance(part, p.ResultPart):
        return {"functionResponse": _response(part, sources)}
    if isinstance(part, p.MediaPart) and (held := _media(part)):
        return held
    if isinstance(part, p.ThinkingPart):
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


def _response(result: p.ResultPart, sources: Sources) -> Message:
    media: list[Message] = []
    data: Any = None
    spoken: list[Any] = []
    for part in result.content:
        if isinstance(part, p.DataPart | p.TextPart):
            spoken.append(part)
        elif isinstance(part, p.MediaPart) and part.data:
            media.append({"inlineData": {"mimeType": part.media_type, "data": part.data}})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no part for it")
    only = spoken[0] if len(spoken) == 1 else None
    data = only.value if isinstance(only, p.DataPart) else p.plain_text(spoken)
    wrapped = {"error" if result.failed else "result": data}
    whole = isinstance(data, dict) and not result.failed and not _looks_wrapped(data)
    response: Message = {
        "id": result.id,
        "name": result.name,
        "response": data if whole else wrapped,
    }
    return response | ({"parts": media} if media else {})


def _looks_wrapped(data: Mapping[str, Any]) -> bool:
    return len(data) == 1 and not {"result", "output", "error"}.isdisjoint(data)


def _media(part: p.MediaPart) -> Message | None:
    if part.data and part.media_type:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    if part.url:
        kind = part.media_type or {"document": "application/pdf"}.get(part.kind, f"{part.kind}/*")
        return {"fileData": {"mimeType": kind, "fileUri": part.url}}
    return None
