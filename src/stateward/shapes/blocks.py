"""Blocks that say what they are: of OpenAI chat, OpenAI Responses, Anthropic and LangChain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stateward.shapes.parts import (
    CallPart,
    MediaPart,
    OtherPart,
    ResultPart,
    SaidPart,
    TextPart,
    ThinkingPart,
    first_of,
    given_arguments,
    kind_of_media,
    listed,
    mapped,
    media,
    result_content,
    standard_base64,
    text_of,
)

Block = Mapping[str, Any]

TEXTS = ("text", "input_text", "output_text", "text-plain")
MEDIA = {"image": "image", "audio": "audio", "video": "video", "document": "document"}
MEDIA |= {"file": "document", "input_file": "document", "input_image": "image"}
MEDIA |= {"image_url": "image", "input_audio": "audio"}


def read_content(content: object) -> list[SaidPart]:
    """The parts of what a message has as `content`: a text or blocks."""
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [part for block in listed(content) for part in read_block(block)]


def read_block(block: object) -> Iterator[SaidPart]:
    if isinstance(block, str):
        yield TextPart(block)
        return
    block = mapped(block)
    kind = text_of(block.get("type")) or ("text" if "text" in block else "")
    if kind in TEXTS:
        cited = bool(block.get("annotations") or block.get("citations"))
        yield TextPart(text_of(block.get("text")), cited=cited)
    elif kind == "refusal":
        yield TextPart(text_of(block.get("refusal")), refusal=True)
    elif kind in MEDIA:
        yield _media(MEDIA[kind], block)
    elif kind == "thinking":
        yield ThinkingPart(
            text_of(block.get("thinking")), text_of(block.get("signature")), "anthropic"
        )
    elif kind == "redacted_thinking":
        yield ThinkingPart("", text_of(block.get("data")), "anthropic", redacted=True)
    elif kind == "reasoning":
        yield _reasoning(block)
    elif kind in ("function_call", "tool_use", "tool_call"):
        given = first_of(block, "arguments", "input", "args")
        id = text_of(first_of(block, "call_id", "id"))
        yield CallPart(text_of(block.get("name")), given_arguments(given), id)
    elif kind == "custom_tool_call":
        given, id = text_of(block.get("input")), text_of(block.get("call_id"))
        yield CallPart(text_of(block.get("name")), given, id, custom=True)
    elif kind in ("function_call_output", "custom_tool_call_output", "tool_result"):
        told = first_of(block, "output", "content")
        blocks = read_content(told) if isinstance(told, list) else []
        id = text_of(first_of(block, "call_id", "tool_use_id"))
        failed = block.get("is_error") is True
        yield ResultPart(result_content(told, blocks), id, text_of(block.get("name")), failed)
    else:
        yield OtherPart(kind or "a block without a type")


def _reasoning(block: Block) -> ThinkingPart:
    """An item of Responses, or LangChain's block for any provider's."""
    said = [text_of(each.get("text")) for each in listed(block.get("summary")) if mapped(each)]
    said += [text_of(each.get("text")) for each in listed(block.get("content")) if mapped(each)]
    extras = mapped(block.get("extras"))
    text = text_of(block.get("reasoning")) or "\n".join(said)
    hidden = text_of(block.get("encrypted_content"))
    signed = text_of(extras.get("signature"))
    provider = text_of(extras.get("provider")) or ("gemini" if signed else "openai")
    return ThinkingPart(text, hidden or signed, provider, text_of(block.get("id")))


def _media(kind: str, block: Block) -> MediaPart | OtherPart:
    name = first_of(block, "filename", "title", "name") or mapped(block.get("extras")).get("name")
    told = text_of(first_of(block, "mime_type", "media_type"))
    held = first_of(block, "image_url", "input_audio", "file", "source")
    if isinstance(held, str):
        return media(kind, held, told, name)
    if isinstance(held, Mapping):
        name = held.get("filename") or name
        told = told or text_of(held.get("media_type")) or _of_format(held.get("format"))
        if held.get("type") == "text":  # a document of Anthropic
            data = standard_base64(text_of(held.get("data")).encode())
            return MediaPart(kind, "text/plain", data=data, name=text_of(name))
        if held.get("type") == "content":
            return OtherPart("document of blocks")
    block = held if isinstance(held, Mapping) else block
    if id := text_of(block.get("file_id")):
        return MediaPart(kind, told, file_id=id, name=text_of(name))
    address = text_of(first_of(block, "url", "file_url", "image_url", "file_data"))
    if address.startswith("data:") or (address and "file_data" not in block):
        return media(kind, address, told, name)
    data = standard_base64(first_of(block, "data", "base64", "file_data"))
    kind = kind_of_media(told) if told and kind == "document" else kind
    return MediaPart(kind, told, data=data, name=text_of(name))


def _of_format(format: object) -> str:
    return f"audio/{format}" if isinstance(format, str) else ""
