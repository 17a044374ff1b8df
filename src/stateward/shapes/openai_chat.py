"""`openai`: messages of Chat Completions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes.blocks import read_content
from stateward.shapes.parts import (
    CallPart,
    MediaPart,
    Message,
    ResultPart,
    Said,
    SaidPart,
    TextPart,
    arguments_text,
    calls,
    data_url,
    given_arguments,
    listed,
    mapped,
    plain_text,
    result_content,
    results,
    subtype,
    text_of,
)
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".{1,40}")
PLAIN = frozenset({"role", "content", "name"})
NAME = "OpenAI chat"


def read(message: Message) -> Said:
    role = text_of(message.get("role"))
    told = message.get("content")
    name = text_of(message.get("name"))
    if role in ("tool", "function"):
        blocks = read_content(told) if isinstance(told, list) else []
        id = text_of(message.get("tool_call_id"))
        failed = message.get("status") == "error" or message.get("is_error") is True
        return Said("tool", [ResultPart(result_content(told, blocks), id, name, failed)])
    parts = read_content(told)
    if refusal := text_of(message.get("refusal")):
        parts.append(TextPart(refusal, refusal=True))
    parts += (read_call(call) for call in listed(message.get("tool_calls")))
    if isinstance(message.get("function_call"), Mapping):
        parts.append(read_call({"function": message["function_call"]}))
    if isinstance(message.get("audio"), Mapping):
        parts.append(MediaPart("audio", file_id=text_of(message["audio"].get("id"))))
    return Said(role, parts, name)


def read_call(call: object) -> CallPart:
    """A call as chat has it, and LangChain and LlamaIndex in places."""
    call = mapped(call)
    id = text_of(call.get("id"))
    if isinstance(call.get("custom"), Mapping):
        custom = call["custom"]
        return CallPart(text_of(custom.get("name")), text_of(custom.get("input")), id, custom=True)
    of = mapped(call.get("function")) or call
    given = of.get("arguments", of.get("args"))
    return CallPart(text_of(of.get("name")), given_arguments(given), id)


def kept(said: Said) -> Message | None:
    if said.shape == "openai":
        return said.raw
    return said.raw if said.shape == "plain" and said.raw.keys() <= PLAIN else None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for said in saids:
        if said.role == "tool":
            messages += (_result(result, sources) for result in results(said.parts))
        elif (own := sources.own(said.parts)) is not None:
            messages.append(own)
        elif said.role == "assistant":
            messages += _answer(said, sources)
        else:
            content = _content(said, sources)
            if content:
                named = {"name": said.name} if said.name else {}
                messages.append({"role": said.role, "content": content, **named})
    return messages


def _content(said: Said, sources: Sources) -> str | list[Message]:
    found: list[Message] = []
    for part in said.parts:
        if isinstance(part, TextPart):
            found.append({"type": "text", "text": part.text})
        elif said.role == "user" and isinstance(part, MediaPart) and (held := _media(part)):
            found.append(held)
        else:
            sources.lose(part, what(part), f"{NAME} has no place for it in a message of this role")
    if len(found) == 1 and found[0]["type"] == "text":
        return text_of(found[0]["text"])
    return found


def _media(part: MediaPart) -> Message | None:
    if part.kind == "image" and not part.file_id:
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    if part.kind == "audio" and part.data:
        sound = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav"}.get(subtype(part))
        if sound is not None:
            held = {"data": part.data, "format": sound}
            return {"type": "input_audio", "input_audio": held}
    if part.kind == "document" and (part.file_id or part.data):
        if part.file_id:
            return {"type": "file", "file": {"file_id": part.file_id}}
        file = {"filename": part.name or "document", "file_data": data_url(part)}
        return {"type": "file", "file": file}
    return None


def _answer(said: Said, sources: Sources) -> list[Message]:
    spoken: list[SaidPart] = []
    refused: list[str] = []
    for part in said.parts:
        if isinstance(part, TextPart) and part.refusal:
            refused.append(part.text)
        elif isinstance(part, TextPart):
            spoken.append(part)
        elif not isinstance(part, CallPart):
            sources.lose(part, what(part), f"{NAME} has no place for it in an answer")
        elif part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
    sources.mark_order(said.parts, NAME)
    message: Message = {"role": "assistant"}
    if spoken:
        words: list[Any] = [{"type": "text", "text": plain_text([part])} for part in spoken]
        message["content"] = words[0]["text"] if len(words) == 1 else words
    if refused:
        message["refusal"] = "\n".join(refused)
    if called := calls(said.parts):
        message.setdefault("content", None)
        message["tool_calls"] = [_call(call) for call in called]
    if said.name:
        message["name"] = said.name
    return [message] if spoken or refused or called else []


def _call(call: CallPart) -> Message:
    if call.custom:
        custom = {"name": call.name, "input": call.arguments}
        return {"id": call.id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}


def _result(result: ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    for part in result.content:
        if not plain_text([part]) and not isinstance(part, TextPart):
            sources.lose(result, what(part), f"a result of {NAME} is text")
    if result.failed:
        sources.lose(result, "failure", f"{NAME} has no mark for it: only its text says so")
    return {"role": "tool", "tool_call_id": result.id, "content": plain_text(result.content)}
