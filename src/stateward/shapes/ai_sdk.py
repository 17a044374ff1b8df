"""`ai-sdk`: the `UIMessage`s of Vercel's AI SDK, as `useChat` holds them, from version 4 on.

One message holds a whole answer of several steps, each call in it together with its result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.pairs import digest
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "the AI SDK"
STEP: Message = {"type": "step-start"}
SIGNED = {"anthropic": "signature", "google": "thoughtSignature"}
HIDDEN = {"anthropic": "redactedData", "openai": "reasoningEncryptedContent"}


def is_message(message: Mapping[str, Any]) -> bool:
    """Return whether the parts of a message with a role all state their type, as the SDK's do."""
    parts = message["parts"]
    if not parts:
        return message["role"] == "assistant" or "id" in message
    return all(isinstance(part, Mapping) and type(part.get("type")) is str for part in parts)


def read(message: Message) -> list[Speech]:
    """Return what each step of an answer says and calls, and what its tools have returned."""
    role = p.text_of(message.get("role"))
    speeches = [Speech(role, [])]
    results: list[Part] = []
    for each in [*p.listed(message.get("parts")), STEP]:
        if each.get("type") == "step-start":
            speeches += [Speech("tool", results), Speech(role, [])] if results else []
            results = []
            continue
        for part in _read_part(each):
            (results if isinstance(part, p.ResultPart) else speeches[-1].parts).append(part)
    return [speech for speech in speeches if speech.parts]


def _read_part(part: Mapping[str, Any]) -> Iterator[Part]:
    kind = p.text_of(part.get("type"))
    if kind == "text":
        yield p.TextPart(p.text_of(part.get("text")))
    elif kind == "reasoning":
        yield _thought(part)
    elif kind == "file":
        media_type = p.text_of(p.first_of(part, "mediaType", "mimeType"))
        url, name = p.text_of(part.get("url")), p.text_of(part.get("filename"))
        data = p.standard_base64(part.get("data")) if not url else ""
        media = p.media(p.kind_of_media(media_type), url, media_type, name)
        yield p.MediaPart(media.kind, media_type, data, name=name) if data else media
    elif kind == "dynamic-tool":
        yield from _called(part, p.text_of(part.get("toolName")))
    elif kind == "tool-invocation":  # of version 4
        call = p.mapped(part.get("toolInvocation"))
        state = {"result": "output-available", "partial-call": "input-streaming"}
        fields = {"input": call.get("args"), "output": call.get("result")}
        fields["state"] = state.get(p.text_of(call.get("state")), "")
        yield from _called({**call, **fields}, p.text_of(call.get("toolName")))
    elif kind.startswith("tool-"):
        yield from _called(part, kind.removeprefix("tool-"))
    else:
        yield p.OtherPart(kind)


def _called(part: Mapping[str, Any], name: str) -> Iterator[Part]:
    state, id = part.get("state"), p.text_of(part.get("toolCallId"))
    if state == "input-streaming":
        yield p.OtherPart("call that is not complete")
        return
    google = p.mapped(p.mapped(part.get("callProviderMetadata")).get("google"))
    arguments = p.given_arguments(p.first_of(part, "input", "rawInput"))
    signature = p.text_of(google.get("thoughtSignature"))
    yield p.CallPart(name, arguments, id, signature=signature)
    if state == "output-available":
        yield p.ResultPart(p.result_content(part.get("output")), id, name)
    elif state == "output-error":
        yield p.ResultPart((p.TextPart(p.text_of(part.get("errorText"))),), id, name, True)
    elif state == "output-denied":
        reason = p.text_of(p.mapped(part.get("approval")).get("reason"))
        yield p.ResultPart((p.TextPart(reason or "Tool execution denied."),), id, name, True)


def _thought(part: Mapping[str, Any]) -> p.ThinkingPart:
    text = p.text_of(p.first_of(part, "text", "reasoning"))
    for name, held in p.mapped(part.get("providerMetadata")).items():
        fields = p.mapped(held)
        hidden = p.text_of(fields.get(HIDDEN.get(name, "")))
        signature = hidden or p.text_of(fields.get(SIGNED.get(name, "")))
        provider = {"google": "gemini"}.get(name, name)
        redacted = bool(hidden) and name == "anthropic"
        return p.ThinkingPart(text, signature, provider, p.text_of(fields.get("itemId")), redacted)
    return p.ThinkingPart(text)


def kept(speech: Speech) -> Message | None:
    return speech.raw if speech.shape == "ai-sdk" else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    """Return messages; an answer with all its steps is one, unless it is given as it was stored."""
    pieces = [
        (at, speech.role, parts)
        for at, speech in enumerate(speeches)
        for parts in sources.by_home(speech.parts)
    ]
    results = {part.id: part for _, _, parts in pieces for part in p.results(parts)}
    messages: list[Message] = []
    answer: list[Message] | None = None  # the parts of the answer to which the next step belongs
    step = -1
    for _, run in groupby(pieces, key=lambda piece: sources.home(piece[2][0])):
        stored = list(run)
        own = _own([part for _, _, parts in stored for part in parts], results, sources)
        if own is not None:
            messages.append(own)
            answer = None
            continue
        for at, role, parts in stored:
            if role == "tool":
                continue  # its results stand with their calls
            sources.lose_name(parts, NAME)
            made = [each for part in parts if (each := _part(part, role, results, sources))]
            if role != "assistant":
                messages.append({"role": role.replace("developer", "system"), "parts": made})
                answer = None
            elif made:
                if answer is None:
                    answer = []
                    messages.append({"role": role, "parts": answer})
                answer += made if at == step else [STEP, *made]
                step = at
    return _with_ids([message for message in messages if message["parts"]])


def _own(
    parts: Sequence[Part], results: Mapping[str, p.ResultPart], sources: Sources
) -> Message | None:
    """Return the stored message that these parts are, if no result of its calls came after it."""
    home = sources.home(parts[0])
    calls = (call for call in p.calls(parts) if call.id in results)
    if any(sources.home(results[call.id]) != home for call in calls):
        return None
    return sources.own(parts)


def _with_ids(messages: list[Message]) -> list[Message]:
    """Return the messages; those without an id get one that is made of what they say."""
    taken = {message.get("id") for message in messages}
    identified = []
    for message in messages:
        if "id" not in message:
            text = json.dumps(message, sort_keys=True, default=str)
            ids = (digest(f"{text} {n}").replace("call", "msg", 1) for n in count())
            message = {"id": next(id for id in ids if id not in taken)} | message
            taken.add(message["id"])
        identified.append(message)
    return identified


def _part(
    part: Part, role: str, results: Mapping[str, p.ResultPart], sources: Sources
) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, p.MediaPart) and role != "system" and (part.url or part.data):
        named = {"filename": part.name} if part.name else {}
        media_type = part.media_type or {"document": "application/pdf"}.get(part.kind)
        media_type = media_type or f"{part.kind}/*"
        return {"type": "file", "mediaType": media_type, "url": p.data_url(part), **named}
    if isinstance(part, p.CallPart):
        signed = {"callProviderMetadata": {"google": {"thoughtSignature": part.signature}}}
        named = {"type": f"tool-{part.name}", "toolCallId": part.id}
        outcome = _outcome(results.get(part.id), sources)
        return {**named, "input": p.arguments_object(part), **outcome} | (
            signed if part.signature else {}
        )
    if isinstance(part, p.ThinkingPart):
        return _reasoning(part)
    sources.lose(part, what(part), f"{NAME} has no part for it in a message of this role")
    return None


def _outcome(result: p.ResultPart | None, sources: Sources) -> Message:
    if result is None:
        return {"state": "input-available"}
    for part in result.content:
        if not isinstance(part, p.TextPart | p.DataPart):
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    text = p.plain_text(result.content)
    if result.failed:
        return {"state": "output-error", "errorText": text}
    only = result.content[0] if len(result.content) == 1 else None
    return {"state": "output-available", "output": getattr(only, "value", text)}


def _reasoning(part: p.ThinkingPart) -> Message:
    provider = {"gemini": "google"}.get(part.provider, part.provider)
    names = HIDDEN if part.redacted or provider not in SIGNED else SIGNED
    fields = {names.get(provider, "signature"): part.signature, "itemId": part.id}
    fields = {name: value for name, value in fields.items() if value}
    metadata = {"providerMetadata": {provider: fields}} if provider and fields else {}
    return {"type": "reasoning", "text": part.text, **metadata}
