"""`bedrock`: messages of Bedrock's Converse, which Strands uses as well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.parts import Message, Part, Speech
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


def read(message: Message) -> Speech:
    content = message.get("content")
    if isinstance(content, str):
        return Speech(p.text_of(message.get("role")), [p.TextPart(content)] if content else [])
    blocks = [_part(p.mapped(block)) for block in p.listed(content)]
    return Speech(p.text_of(message.get("role")), [part for part in blocks if part is not None])


def _part(block: Mapping[str, Any]) -> Part | None:
    if "text" in block:
        return p.TextPart(p.text_of(block["text"]))
    if "toolUse" in block:
        use = p.mapped(block["toolUse"])
        arguments = p.given_arguments(use.get("input"))
        return p.CallPart(p.text_of(use.get("name")), arguments, p.text_of(use.get("toolUseId")))
    if "toolResult" in block:
        result = p.mapped(block["toolResult"])
        content = tuple(_result_part(p.mapped(each)) for each in p.listed(result.get("content")))
        failed = result.get("status") == "error"
        return p.ResultPart(content, p.text_of(result.get("toolUseId")), failed=failed)
    if "reasoningContent" in block:
        held = p.mapped(block["reasoningContent"])
        if "redactedContent" in held:
            hidden = p.standard_base64(held["redactedContent"])
            return p.ThinkingPart("", hidden, "anthropic", redacted=True)
        thought = p.mapped(held.get("reasoningText"))
        signature = p.text_of(thought.get("signature"))
        return p.ThinkingPart(p.text_of(thought.get("text")), signature, "anthropic")
    if "citationsContent" in block:
        citations = p.listed(p.mapped(block["citationsContent"]).get("content"))
        text = "".join(p.text_of(p.mapped(each).get("text")) for each in citations)
        return p.TextPart(text, cited=True)
    for kind in FORMATS:
        if kind in block:
            return _read_media(kind, p.mapped(block[kind]))
    if "cachePoint" in block:
        return None  # says how to send it, and nothing
    return p.OtherPart(next(iter(block), "an empty block"))


def _result_part(block: Mapping[str, Any]) -> p.TextPart | p.MediaPart | p.DataPart | p.OtherPart:
    if "json" in block:
        return p.DataPart(block["json"])
    part = _part(block)
    return (
        part
        if isinstance(part, p.TextPart | p.MediaPart)
        else p.OtherPart(next(iter(block), "block"))
    )


def _read_media(kind: str, held: Mapping[str, Any]) -> p.MediaPart | p.OtherPart:
    format, source = p.text_of(held.get("format")), p.mapped(held.get("source"))
    folder = "application" if kind == "document" else kind
    media_type = TYPES.get(format, "") if kind == "document" else ""
    media_type = media_type or f"{folder}/{format}"
    name = p.text_of(held.get("name"))
    if "bytes" in source:
        return p.MediaPart(kind, media_type, data=p.standard_base64(source["bytes"]), name=name)
    place = p.mapped(source.get("s3Location")) or p.mapped(source.get("location"))
    if "uri" in place:
        return p.MediaPart(kind, media_type, url=p.text_of(place["uri"]), name=name)
    return p.OtherPart(kind)


def kept(speech: Speech) -> Message | None:
    if speech.shape not in ("bedrock", "strands") or speech.raw.get("role") not in (
        "user",
        "assistant",
    ):
        return None
    if speech.shape == "bedrock":
        return speech.raw
    return {"role": speech.raw["role"], "content": _with_bytes(speech.raw.get("content"))}


def _with_bytes(value: Any) -> Any:
    """Return a value as it was before Strands encoded its bytes."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("__bytes_encoded__") is True:
        return p.data_bytes(p.MediaPart("", data=p.text_of(value.get("data"))))
    return {name: _with_bytes(each) for name, each in value.items()}


def write(speeches: Sequence[Speech], sources: Sources) -> list[Message]:
    return alternated(speeches, sources, NAME, ("assistant", "content"), _block)


def _block(part: Part, sources: Sources) -> Message | None:
    if isinstance(part, p.TextPart):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, p.CallPart):
        sources.lose_signature(part, NAME)
        use = {"toolUseId": part.id, "name": part.name, "input": p.arguments_object(part)}
        return {"toolUse": use}
    if isinstance(part, p.ResultPart):
        result = {"toolUseId": part.id, "content": _content(part, sources)}
        return {"toolResult": result | {"status": "error" if part.failed else "success"}}
    if isinstance(part, p.MediaPart) and (held := _media(part)):
        return held
    if isinstance(part, p.ThinkingPart) and part.provider == "anthropic" and part.signature:
        if part.redacted:
            hidden = p.data_bytes(p.MediaPart("", data=part.signature))
            return {"reasoningContent": {"redactedContent": hidden}}
        signed = {"text": part.text, "signature": part.signature}
        return {"reasoningContent": {"reasoningText": signed}}
    why = "takes only what it signed" if isinstance(part, p.ThinkingPart) else "has no block for it"
    sources.lose(part, what(part), f"{NAME} {why}")
    return None


def _content(result: p.ResultPart, sources: Sources) -> list[Message]:
    blocks: list[Message] = []
    for part in result.content:
        held = _media(part) if isinstance(part, p.MediaPart) else None
        if isinstance(part, p.DataPart) and isinstance(part.value, dict):
            blocks.append({"json": part.value})
        elif held is not None and "audio" not in held:
            blocks.append(held)
        elif isinstance(part, p.TextPart | p.DataPart):
            blocks.append({"text": p.plain_text([part])})
        else:
            sources.lose(result, what(part), f"a result of {NAME} has no block for it")
    return blocks or [{"text": ""}]


def _media(part: p.MediaPart) -> Message | None:
    formats = {media_type: name for name, media_type in TYPES.items()}
    format = formats.get(part.media_type) or {"jpg": "jpeg"}.get(p.subtype(part), p.subtype(part))
    if format not in FORMATS.get(part.kind, ()) or part.file_id:
        return None
    if part.url:
        if not part.url.startswith("s3://"):
            return None
        source: Message = {"s3Location": {"uri": part.url}}
    else:
        source = {"bytes": p.data_bytes(part)}
    named = {"name": _title(part.name)} if part.kind == "document" else {}
    return {part.kind: {"format": format, **named, "source": source}}


def _title(name: str) -> str:
    """A name that Bedrock takes."""
    return re.sub(r"[^a-zA-Z0-9 ()\[\]-]+", "-", name).strip() or "document"
