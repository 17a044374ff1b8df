"""`openai`: messages of Chat Completions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.blocks import read_content
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".{1,40}")
PLAIN = frozenset({"role", "content", "name"})
NAME = "OpenAI chat"


def read(message: Message) -> Speech:
    role = p.text_of(message.get("role"))
    content = message.get("content")
    name = p.text_of(message.get("name"))
    if role in ("tool", "function"):
        blocks = read_content(content) if isinstance(content, list) else []
        id = p.text_of(message.get("tool_call_id"))
        failed = message.get("status") == "error" or message.get("is_error") is True
        return Speech("tool", [p.ResultPart(p.result_content(content, blocks), id, name, failed)])
    parts = read_content(content)
    if refusal := p.text_of(message.get("refusal")):
        parts.append(p.TextPart(refusal, refusal=True))
    parts += (read_call(call) for call in p.listed(message.get("tool_calls")))
    if isinstance(message.get("function_call"), Mapping):
        parts.append(read_call({"function": message["function_call"]}))
    if isinstance(message.get("audio"), Mapping):
        parts.append(p.MediaPart("audio", file_id=p.text_of(message["audio"].get("id"))))
    return Speech(role, parts, name)


def read_call(call: object) -> p.CallPart:
    """A call as chat has it, and LangChain and LlamaIndex in places."""
    call = p.mapped(call)
    id = p.text_of(call.get("id"))
    if isinstance(call.get("custom"), Mapping):
        custom = call["custom"]
        return p.CallPart(
            p.text_of(custom.get("name")), p.text_of(custom.get("input")), id, custom=True
        )
    of = p.mapped(call.get("function")) or call
    arguments = of.get("arguments", of.get("args"))
    return p.CallPart(p.text_of(of.get("name")), p.given_arguments(arguments), id)


def kept(speech: Speech) -> Message | None:
    if speech.shape == "openai":
        return speech.raw
    return speech.raw if speech.shape == "plain" and speech.raw.keys() <= PLAIN else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    messages: list[Message] = []
    for speech in speeches:
        if speech.role == "tool":
            messages += (_result(result, sources) for result in p.results(speech.parts))
        elif (own := sources.own(speech.parts)) is not None:
            messages.append(own)
        elif speech.role == "assistant":
            messages += _answer(speech, sources)
        else:
            content = _content(speech, sources)
            if content:
                named = {"name": speech.name} if speech.name else {}
                messages.append({"role": speech.role, "content": content, **named})
    return messages


def _content(speech: Speech, sources: Sources) -> str | list[Message]:
    blocks: list[Message] = []
    for part in speech.parts:
        if isinstance(part, p.TextPart):
            blocks.append({"type": "text", "text": part.text})
        elif speech.role == "user" and isinstance(part, p.MediaPart) and (held := _media(part)):
            blocks.append(held)
        else:
            sources.lose(part, what(part), f"{NAME} has no place for it in a message of this role")
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return p.text_of(blocks[0]["text"])
    return blocks


def _media(part: p.MediaPart) -> Message | None:
    if part.kind == "image" and not part.file_id:
        return {"type": "image_url", "image_url": {"url": p.data_url(part)}}
    if part.kind == "audio" and part.data:
        sound = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav"}.get(p.subtype(part))
        if sound is not None:
            held = {"data": part.data, "format": sound}
            return {"type": "input_audio", "input_audio": held}
    if part.kind == "document" and (part.file_id or part.data):
        if part.file_id:
            return {"type": "file", "file": {"file_id": part.file_id}}
        file = {"filename": part.name or "document", "file_data": p.data_url(part)}
        return {"type": "file", "file": file}
    return None


def _answer(speech: Speech, sources: Sources) -> list[Message]:
    spoken: list[Part] = []
    refused: list[str] = []
    for part in speech.parts:
        if isinstance(part, p.TextPart) and part.refusal:
            refused.append(part.text)
        elif isinstance(part, p.TextPart):
            spoken.append(part)
        elif not isinstance(part, p.CallPart):
            sources.lose(part, what(part), f"{NAME} has no place for it in an answer")
        else:
            sources.lose_signature(part, NAME)
    sources.mark_order(speech.parts, NAME)
    message: Message = {"role": "assistant"}
    if spoken:
        words: list[Any] = [{"type": "text", "text": p.plain_text([part])} for part in spoken]
        message["content"] = words[0]["text"] if len(words) == 1 else words
    if refused:
        message["refusal"] = "\n".join(refused)
    if called := p.calls(speech.parts):
        message.setdefault("content", None)
        message["tool_calls"] = [_call(call) for call in called]
    if speech.name:
        message["name"] = speech.name
    return [message] if spoken or refused or called else []


def _call(call: p.CallPart) -> Message:
    if call.custom:
        custom = {"name": call.name, "input": call.arguments}
        return {"id": call.id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": p.arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}


def _result(result: p.ResultPart, sources: Sources) -> Message:
    own = sources.own([result])
    if own is not None:
        return own
    for part in result.content:
        if not p.plain_text([part]) and not isinstance(part, p.TextPart):
            sources.lose(result, what(part), f"a result of {NAME} is text")
    if result.failed:
        sources.lose(result, "failure", f"{NAME} has no mark for it: only its text says so")
    return {"role": "tool", "tool_call_id": result.id, "content": p.plain_text(result.content)}
