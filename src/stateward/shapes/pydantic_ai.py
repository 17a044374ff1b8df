"""`pydantic-ai`: messages of Pydantic AI, as `ModelMessagesTypeAdapter` takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateward.shapes.parts import (
    INPUT,
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
    given_arguments,
    kind_of_media,
    listed,
    mapped,
    result_content,
    standard_base64,
    text_of,
)
from stateward.shapes.sources import Sources, what

IDS = re.compile(r".+")
NAME = "Pydantic AI"
PROVIDERS = {"bedrock": "anthropic", "google": "gemini", "azure": "openai"}
NAMES = {"gemini": "google"}


def read(message: Message) -> list[Said]:
    """A request may hold what the system, the user and tools say: each is a message here."""
    if message.get("kind") == "response":
        found = [_answered(mapped(part)) for part in listed(message.get("parts"))]
        return [Said("assistant", [part for part in found if part is not None])]
    saids: list[Said] = []
    for each in listed(message.get("parts")):
        part = mapped(each)
        role, parts = _requested(part)
        if not parts:
            continue
        if saids and saids[-1].role == role:
            saids[-1].parts.extend(parts)
        else:
            saids.append(Said(role, parts))
    return saids


def _answered(part: Mapping[str, Any]) -> SaidPart | None:
    kind = text_of(part.get("part_kind"))
    if kind == "text":
        return TextPart(text_of(part.get("content")), cited=bool(part.get("citations")))
    if kind == "thinking":
        provider = text_of(part.get("provider_name"))
        known = PROVIDERS.get(provider.split("-", 1)[0], provider)
        signature, id = text_of(part.get("signature")), text_of(part.get("id"))
        redacted = id == "redacted_thinking"
        text = text_of(part.get("content"))
        return ThinkingPart(text, signature, known, "" if redacted else id, redacted)
    if kind == "tool-call":
        details = mapped(part.get("provider_details"))
        signature = text_of(details.get("thought_signature"))
        given = given_arguments(part.get("args"))
        id = text_of(part.get("tool_call_id"))
        return CallPart(text_of(part.get("tool_name")), given, id, signature=signature)
    if kind == "file":
        return _content(part.get("content"))
    return OtherPart(kind or "a part without a kind")


def _requested(part: Mapping[str, Any]) -> tuple[str, list[SaidPart]]:
    kind, told = text_of(part.get("part_kind")), part.get("content")
    if kind == "system-prompt":
        return "system", [TextPart(text_of(told))]
    if kind == "user-prompt":
        return "user", [TextPart(told)] if isinstance(told, str) else _contents(told)
    name, id = text_of(part.get("tool_name")), text_of(part.get("tool_call_id"))
    if kind == "tool-return":
        failed = part.get("outcome", "success") != "success"
        held = any(mapped(each).get("kind") for each in listed(told))
        blocks = _contents(told) if held else []
        return "tool", [ResultPart(result_content(told, blocks), id, name, failed)]
    if kind == "retry-prompt" and name:
        return "tool", [ResultPart(result_content(told), id, name, True)]
    if kind in ("retry-prompt", "retry-feedback"):
        return "user", list(result_content(told))
    return "user", [OtherPart(kind or "a part without a kind")]


def _contents(told: object) -> list[SaidPart]:
    return [_content(each) for each in listed(told)]


def _content(held: object) -> SaidPart:
    if isinstance(held, str):
        return TextPart(held)
    block = mapped(held)
    kind, media_type = text_of(block.get("kind")), text_of(block.get("media_type"))
    if kind in ("text-content", "structured-content"):
        return TextPart(text_of(block.get("content")))
    if kind == "binary":
        data = standard_base64(block.get("data"))
        return MediaPart(kind_of_media(media_type), media_type, data=data)
    if kind.endswith("-url"):
        url = text_of(block.get("url"))
        return MediaPart(kind.removesuffix("-url"), media_type, url=url)
    if kind == "uploaded-file":
        return MediaPart(
            kind_of_media(media_type), media_type, file_id=text_of(block.get("file_id"))
        )
    return OtherPart(kind) if kind else DataPart(held)


def kept(said: Said) -> Message | None:
    return said.raw if said.shape == "pydantic-ai" else None


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    """Neighbours of one kind become one message, unless they are given as they were stored."""
    messages: list[Message] = []
    joins = False
    for kind, pieces in _pieces(saids, sources):
        parts = [part for _, held in pieces for part in held]
        own = sources.own(parts)
        if own is not None:
            messages.append(own)
            joins = False
            continue
        sources.lose_name(parts, NAME)
        found = [each for role, held in pieces for each in _parts(role, held, sources)]
        if joins and messages[-1]["kind"] == kind:
            messages[-1]["parts"] += found
        elif found:
            messages.append({"kind": kind, "parts": found})
            joins = True
    return messages


Piece = tuple[str, list[SaidPart]]


def _pieces(saids: Sequence[Said], sources: Sources) -> Iterator[tuple[str, list[Piece]]]:
    """The parts that come from one stored message and go into one of these, by who says them."""
    pieces: list[Piece] = []
    last = ""
    for said in saids:
        kind = "response" if said.role == "assistant" else "request"
        for parts in sources.by_home(said.parts):
            if pieces and (
                kind != last or sources.home(pieces[-1][1][-1]) != sources.home(parts[0])
            ):
                yield last, pieces
                pieces = []
            pieces.append((said.role, parts))
            last = kind
    if pieces:
        yield last, pieces


def _parts(role: str, parts: Sequence[SaidPart], sources: Sources) -> Iterator[Message]:
    if role == "user":
        content = [c for part in parts if (c := _user(part, sources)) is not None]
        if content:
            only = content[0] if len(content) == 1 and isinstance(content[0], str) else content
            yield {"part_kind": "user-prompt", "content": only}
        return
    for part in parts:
        if role in ("system", "developer"):
            if isinstance(part, TextPart):
                yield {"part_kind": "system-prompt", "content": part.text}
            else:
                sources.lose(part, what(part), f"a system prompt of {NAME} is text")
        elif isinstance(part, ResultPart):
            yield _return(part, sources)
        elif (made := _made(part)) is not None:
            yield made
        else:
            sources.lose(part, what(part), f"{NAME} has no part for it")


def _user(part: SaidPart, sources: Sources) -> Any:
    if isinstance(part, TextPart):
        return part.text
    held = _media(part) if isinstance(part, MediaPart) else None
    if held is None:
        sources.lose(part, what(part), f"{NAME} has no content for it")
    return held


def _media(part: MediaPart) -> Message | None:
    if part.url:
        told = {"media_type": part.media_type} if part.media_type else {}
        return {"kind": f"{part.kind}-url", "url": part.url, **told}
    if part.data and part.media_type:
        return {"kind": "binary", "data": part.data, "media_type": part.media_type}
    return None


def _return(result: ResultPart, sources: Sources) -> Message:
    content: list[Any] = []
    for part in result.content:
        if isinstance(part, TextPart):
            content.append(part.text)
        elif isinstance(part, DataPart):
            content.append(part.value)
        elif isinstance(part, MediaPart) and (held := _media(part)):
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


def _made(part: SaidPart) -> Message | None:
    """What a model made."""
    if isinstance(part, TextPart):
        return {"part_kind": "text", "content": part.text}
    if isinstance(part, CallPart):
        args = {INPUT: part.arguments} if part.custom else part.arguments
        named = {"tool_name": part.name, "tool_call_id": part.id, "args": args}
        signed = {
            "provider_name": "google",
            "provider_details": {"thought_signature": part.signature},
        }
        return {"part_kind": "tool-call", **named, **(signed if part.signature else {})}
    if isinstance(part, ThinkingPart):
        told: Message = {"part_kind": "thinking", "content": part.text}
        if part.redacted and part.provider == "anthropic":
            told["id"] = "redacted_thinking"
        elif part.id:
            told["id"] = part.id
        if part.signature:
            told["signature"] = part.signature
        if part.provider:
            told["provider_name"] = NAMES.get(part.provider, part.provider)
        return told
    if isinstance(part, MediaPart) and part.data and part.media_type:
        return {"part_kind": "file", "content": _media(part)}
    return None
