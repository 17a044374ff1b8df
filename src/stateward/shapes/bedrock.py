"""`bedrock`: messages of Bedrock's Converse, which Strands uses as well."""

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
    data_bytes,
    given_arguments,
    listed,
    mapped,
    plain_text,
    standard_base64,
    subtype,
    text_of,
)
from stateward.shapes.sources import Sources, alternated, what

IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = "Bedrock"
FORMATS = {
    "image": {"png", "jpeg", "gif", "webp"},
    "video": {"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"},
    "document": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"},
    "audio": {"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "pcm", "webm", "mpeg"},
}
TYPES = {  # of documents whose format is not their subtype
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def read(message: Message) -> Said:
    told = message.get("content")
    if isinstance(told, str):
        return Said(text_of(message.get("role")), [TextPart(told)] if told else [])
    blocks = [_part(mapped(block)) for block in listed(told)]
    return Said(text_of(message.get("role")), [part for part in blocks if part is not None])


def _part(block: Mapping[str, Any]) -> SaidPart | None:
    if "text" in block:
        return TextPart(text_of(block["text"]))
    if "toolUse" in block:
        use = mapped(block["toolUse"])
        given = given_arguments(use.get("input"))
        return CallPart(text_of(use.get("name")), given, text_of(use.get("toolUseId")))
    if "toolResult" in block:
        told = mapped(block["toolResult"])
        content = tuple(_told(mapped(each)) for each in listed(told.get("content")))
        failed = told.get("status") == "error"
        return ResultPart(content, text_of(told.get("toolUseId")), failed=failed)
    if "reasoningContent" in block:
        held = mapped(block["reasoningContent"])
        if "redactedContent" in held:
            hidden = standard_base64(held["redactedContent"])
            return ThinkingPart("", hidden, "anthropic", redacted=True)
        told = mapped(held.get("reasoningText"))
        signature = text_of(told.get("signature"))
        return ThinkingPart(text_of(told.get("text")), signature, "anthropic")
    if "citationsContent" in block:
        said = listed(mapped(block["citationsContent"]).get("content"))
        text = "".join(text_of(mapped(each).get("text")) for each in said)
        return TextPart(text, cited=True)
    for kind in FORMATS:
        if kind in block:
            return _read_media(kind, mapped(block[kind]))
    if "cachePoint" in block:
        return None  # says how to send it, and nothing
    return OtherPart(next(iter(block), "an empty block"))


def _told(block: Mapping[str, Any]) -> TextPart | MediaPart | DataPart | OtherPart:
    if "json" in block:
        return DataPart(block["json"])
    part = _part(block)
    return part if isinstance(part, TextPart | MediaPart) else OtherPart(next(iter(block), "block"))


def _read_media(kind: str, held: Mapping[str, Any]) -> MediaPart | OtherPart:
    format, source = text_of(held.get("format")), mapped(held.get("source"))
    folder = "application" if kind == "document" else kind
    told = TYPES.get(format, "") if kind == "document" else ""
    told = told or f"{folder}/{format}"
    name = text_of(held.get("name"))
    if "bytes" in source:
        return MediaPart(kind, told, data=standard_base64(source["bytes"]), name=name)
    place = mapped(source.get("s3Location")) or mapped(source.get("location"))
    if "uri" in place:
        return MediaPart(kind, told, url=text_of(place["uri"]), name=name)
    return OtherPart(kind)


def kept(said: Said) -> Message | None:
    if said.shape not in ("bedrock", "strands") or said.raw.get("role") not in (
        "user",
        "assistant",
    ):
        return None
    if said.shape == "bedrock":
        return said.raw
    return {"role": said.raw["role"], "content": _with_bytes(said.raw.get("content"))}


def _with_bytes(value: Any) -> Any:
    """What Strands stores of bytes, as bytes."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("__bytes_encoded__") is True:
        return data_bytes(MediaPart("", data=text_of(value.get("data"))))
    return {name: _with_bytes(each) for name, each in value.items()}


def write(saids: Sequence[Said], sources: Sources) -> list[Message]:
    return alternated(saids, sources, NAME, ("assistant", "content"), _block)


def _block(part: SaidPart, sources: Sources) -> Message | None:
    if isinstance(part, TextPart):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, CallPart):
        if part.signature:
            sources.lose(part, "signature", f"{NAME} has no place for it")
        use = {"toolUseId": part.id, "name": part.name, "input": arguments_object(part)}
        return {"toolUse": use}
    if isinstance(part, ResultPart):
        told = {"toolUseId": part.id, "content": _content(part, sources)}
        return {"toolResult": told | {"status": "error" if part.failed else "success"}}
    if isinstance(part, MediaPart) and (held := _media(part)):
        return held
    if isinstance(part, ThinkingPart) and part.provider == "anthropic" and part.signature:
        if part.redacted:
            hidden = data_bytes(MediaPart("", data=part.signature))
            return {"reasoningContent": {"redactedContent": hidden}}
        signed = {"text": part.text, "signature": part.signature}
        return {"reasoningContent": {"reasoningText": signed}}
    why = "takes only what it signed" if isinstance(part, ThinkingPart) else "has no block for it"
    sources.lose(part, what(part), f"{NAME} {why}")
    return None


def _content(result: ResultPart, sources: Sources) -> list[Message]:
    found: list[Message] = []
    for part in result.content:
        held = _media(part) if isinstance(part, MediaPart) else None
        if isinstance(part, DataPart) and isinstance(part.value, dict):
            found.append({"json": part.value})
        elif held is not None and "audio" not in held:
            found.append(held)
        elif isinstance(part, TextPart | DataPart):
            found.append({"text": plain_text([part])})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no block for it")
    return found or [{"text": ""}]


def _media(part: MediaPart) -> Message | None:
    formats = {told: name for name, told in TYPES.items()}
    format = formats.get(part.media_type) or {"jpg": "jpeg"}.get(subtype(part), subtype(part))
    if format not in FORMATS.get(part.kind, ()) or part.file_id:
        return None
    if part.url:
        if not part.url.startswith("s3://"):
            return None
        source: Message = {"s3Location": {"uri": part.url}}
    else:
        source = {"bytes": data_bytes(part)}
    named = {"name": _title(part.name)} if part.kind == "document" else {}
    return {part.kind: {"format": format, **named, "source": source}}


def _title(name: str) -> str:
    """A name that Bedrock takes."""
    return re.sub(r"[^a-zA-Z0-9 ()\[\]-]+", "-", name).strip() or "document"
