"""`pydantic-ai`: messages of Pydantic AI, as `ModelMessagesTypeAdapter` takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.parts import Message, Part, Speech
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "Pydantic AI"
PROVIDERS = {"bedrock": "anthropic", "google": "gemini", "azure": "openai"}
NAMES = {"gemini": "google"}


def read(message: Message) -> list[Speech]:
    """A request may hold what the system, the user and tools say: each is a message here."""
    if message.get("kind") == "response":
        answered = [_answered(p.mapped(part)) for part in p.listed(message.get("parts"))]
        return [Speech("assistant", [part for part in answered if part is not None])]
    speeches: list[Speech] = []
    for each in p.listed(message.get("parts")):
        part = p.mapped(each)
        role, parts = _requested(part)
        if not parts:
            continue
        if speeches and speeches[-1].role == role:
            speeches[-1].parts.extend(parts)
        else:
            speeches.append(Speech(role, parts))
    return speeches


def _answered(part: Mapping[str, Any]) -> Part | None:
    kind = p.text_of(part.get("part_kind"))
    if kind == "text":
        return p.TextPart(p.text_of(part.get("content")), cited=bool(part.get("citations")))
    if kind == "thinking":
        provider = p.text_of(part.get("provider_name"))
        shape_provider = PROVIDERS.get(provider.split("-", 1)[0], provider)
        signature, id = p.text_of(part.get("signature")), p.text_of(part.get("id"))
        redacted = id == "redacted_thinking"
        text = p.text_of(part.get("content"))
        return p.ThinkingPart(text, signature, shape_provider, "" if redacted else id, redacted)
    if kind == "tool-call":
        details = p.mapped(part.get("provider_details"))
        signature = p.text_of(details.get("thought_signature"))
        arguments = p.given_arguments(part.get("args"))
        id = p.text_of(part.get("tool_call_id"))
        return p.CallPart(p.text_of(part.get("tool_name")), arguments, id, signature=signature)
    if kind == "file":
        return _content(part.get("content"))
    return p.OtherPart(kind or "a part without a kind")


def _requested(part: Mapping[str, Any]) -> tuple[str, list[Part]]:
    kind, content = p.text_of(part.get("part_kind")), part.get("content")
    if kind == "system-prompt":
        return "system", [p.TextPart(p.text_of(content))]
    if kind == "user-prompt":
        return "user", [p.TextPart(content)] if isinstance(content, str) else _contents(content)
    name, id = p.text_of(part.get("tool_name")), p.text_of(part.get("tool_call_id"))
    if kind == "tool-return":
        failed = part.get("outcome", "success") != "success"
        held = any(p.mapped(each).get("kind") for each in p.listed(content))
        blocks = _contents(content) if held else []
        return "tool", [p.ResultPart(p.result_content(content, blocks), id, name, failed)]
    if kind == "retry-prompt" and name:
        return "tool", [p.ResultPart(p.result_content(content), id, name, True)]
    if kind in ("retry-prompt", "retry-feedback"):
        return "user", list(p.result_content(content))
    return "user", [p.OtherPart(kind or "a part without a kind")]


def _contents(content: object) -> list[Part]:
    return [_content(each) for each in p.listed(content)]


def _content(held: object) -> Part:
    if isinstance(held, str):
        return p.TextPart(held)
    block = p.mapped(held)
    kind, media_type = p.text_of(block.get("kind")), p.text_of(block.get("media_type"))
    if kind in ("text-content", "structured-content"):
        return p.TextPart(p.text_of(block.get("content")))
    if kind == "binary":
        data = p.standard_base64(block.get("data"))
        return p.MediaPart(p.kind_of_media(media_type), media_type, data=data)
    if kind.endswith("-url"):
        url = p.text_of(block.get("url"))
        return p.MediaPart(kind.removesuffix("-url"), media_type, url=url)
    if kind == "uploaded-file":
        return p.MediaPart(
            p.kind_of_media(media_type), media_type, file_id=p.text_of(block.get("file_id"))
        )
    return p.OtherPart(kind) if kind else p.DataPart(held)


def kept(speech: Speech) -> Message | None:
    return speech.raw if speech.shape == "pydantic-ai" else None


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    """Neighbours of one kind become one message, unless they are given as they were stored."""
    messages: list[Message] = []
    joins = False
    for kind, pieces in _pieces(speeches, sources):
        parts = [part for _, held in pieces for part in held]
        own = sources.own(parts)
        if own is not None:
            messages.append(own)
            joins = False
            continue
        sources.lose_name(parts, NAME)
        made = [each for role, held in pieces for each in _parts(role, held, sources)]
        if joins and messages[-1]["kind"] == kind:
            messages[-1]["parts"] += made
        elif made:
            messages.append({"kind": kind, "parts": made})
            joins = True
    return messages


Piece = tuple[str, list[Part]]


def _pieces(speeches: Sequence[Speech], sources: Sources) -> Iterator[tuple[str, list[Piece]]]:
    """The parts that come from one stored message and go into one of these, by who says them."""
    pieces: list[Piece] = []
    last = ""
    for speech in speeches:
        kind = "response" if speech.role == "assistant" else "request"
        for parts in sources.by_home(speech.parts):
            if pieces and (
                kind != last or sources.home(pieces[-1][1][-1]) != sources.home(parts[0])
            ):
                yield last, pieces
                pieces = []
            pieces.append((speech.role, parts))
            last = kind
    if pieces:
        yield last, pieces


def _parts(role: str, parts: Sequence[Part], sources: Sources) -> Iterator[Message]:
    if role == "user":
        content = [c for part in parts if (c := _user(part, sources)) is not None]
        if content:
            only = content[0] if len(content) == 1 and isinstance(content[0], str) else content
            yield {"part_kind": "user-prompt", "content": only}
        return
    for part in parts:
        if role in ("system", "developer"):
            if isinstance(part, p.TextPart):
                yield {"part_kind": "system-prompt", "content": part.text}
            else:
                sources.lose(part, what(part), f"a system prompt of {NAME} is text")
        elif isinstance(part, p.ResultPart):
            yield _return(part, sources)
        elif (made := _made(part)) is not None:
            yield made
        else:
            sources.lose(part, what(part), f"{NAME} has no part for it")


def _user(part: Part, sources: Sources) -> Any:
    if isinstance(part, p.TextPart):
        return part.text
    held = _media(part) if isinstance(part, p.MediaPart) else None
    if held is None:
        sources.lose(part, what(part), f"{NAME} has no content for it")
    return held


def _media(part: p.MediaPart) -> Message | None:
    if part.url:
        stated_type = {"media_type": part.media_type} if part.media_type else {}
        return {"kind": f"{part.kind}-url", "url": part.url, **stated_type}
    if part.data and part.media_type:
        return {"kind": "binary", "data": part.data, "media_type": part.media_type}
    return None


def _return(result: p.ResultPart, sources: Sources) -> Message:
    content: list[Any] = []
    for part in result.content:
        if isinstance(part, p.TextPart):
            content.append(part.text)
        elif isinstance(part, p.DataPart):
            content.append(part.value)
        elif isinstance(part, p.MediaPart) and (held := _media(part)):
            content.append(held)
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no place for it")
    outcome = {"outcome": "failed"} if result.failed else {}
    return {
        "part_kind": "tool-return",
        "tool_name": result.name,
        "tool_call_id": result.id,
        "content": content[0] if len(content) == 1 else content or "",
        **outcome,
    }


def _made(part: Part) -> Message | None:
    """Return the part of a response for something that the model made."""
    if isinstance(part, p.TextPart):
        return {"part_kind": "text", "content": part.text}
    if isinstance(part, p.CallPart):
        args = {p.INPUT: part.arguments} if part.custom else part.arguments
        named = {"tool_name": part.name, "tool_call_id": part.id, "args": args}
        signed = {
            "provider_name": "google",
            "provider_details": {"thought_signature": part.signature},
        }
        return {"part_kind": "tool-call", **named, **(signed if part.signature else {})}
    if isinstance(part, p.ThinkingPart):
        thinking: Message = {"part_kind": "thinking", "content": part.text}
        if part.redacted and part.provider == "anthropic":
            thinking["id"] = "redacted_thinking"
        elif part.id:
            thinking["id"] = part.id
        if part.signature:
            thinking["signature"] = part.signature
        if part.provider:
            thinking["provider_name"] = NAMES.get(part.provider, part.provider)
        return thinking
    if isinstance(part, p.MediaPart) and part.data and part.media_type:
        return {"part_kind": "file", "content": _media(part)}
    return None
