"""Blocks that say what they are: of OpenAI chat, OpenAI Responses, Anthropic and LangChain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stateward.shapes import parts as p
from stateward.shapes.parts import Part

Block = Mapping[str, Any]

TEXTS = ("text", "input_text", "output_text", "text-plain")
MEDIA = {"image": "image", "audio": "audio", "video": "video", "document": "document"}
MEDIA |= {"file": "document", "input_file": "document", "input_image": "image"}
MEDIA |= {"image_url": "image", "input_audio": "audio"}
# Types of the parts of a message: by themselves they do not say who speaks.
BLOCKS = frozenset({*TEXTS, *MEDIA, "refusal", "thinking", "redacted_thinking"})
BLOCKS |= {"tool_use", "tool_call", "tool_result"}


def read_content(content: object) -> list[Part]:
    """The parts of what a message has as `content`: a text or blocks."""
    if isinstance(content, str):
        return [p.TextPart(content)] if content else []
    return [part for block in p.listed(content) for part in read_block(block)]


def read_block(block: object) -> Iterator[Part]:
    if isinstance(block, str):
        yield p.TextPart(block)
        return
    block = p.mapped(block)
    kind = p.text_of(block.get("type")) or ("text" if "text" in block else "")
    if kind in TEXTS:
        cited = bool(block.get("annotations") or block.get("citations"))
        yield p.TextPart(p.text_of(block.get("text")), cited=cited)
    elif kind == "refusal":
        yield p.TextPart(p.text_of(block.get("refusal")), refusal=True)
    elif kind in MEDIA:
        yield _media(MEDIA[kind], block)
    elif kind == "thinking":
        yield p.ThinkingPart(
            p.text_of(block.get("thinking")), p.text_of(block.get("signature")), "anthropic"
        )
    elif kind == "redacted_thinking":
        yield p.ThinkingPart("", p.text_of(block.get("data")), "anthropic", redacted=True)
    elif kind == "reasoning":
        yield _reasoning(block)
    elif kind in ("function_call", "tool_use", "tool_call"):
        arguments = p.first_of(block, "arguments", "input", "args")
        id = p.text_of(p.first_of(block, "call_id", "id"))
        yield p.CallPart(p.text_of(block.get("name")), p.given_arguments(arguments), id)
    elif kind == "custom_tool_call":
        input, id = p.text_of(block.get("input")), p.text_of(block.get("call_id"))
        yield p.CallPart(p.text_of(block.get("name")), input, id, custom=True)
    elif kind in ("function_call_output", "custom_tool_call_output", "tool_result"):
        output = p.first_of(block, "output", "content")
        blocks = read_content(output) if isinstance(output, list) else []
        id = p.text_of(p.first_of(block, "call_id", "tool_use_id"))
        failed = block.get("is_error") is True
        yield p.ResultPart(
            p.result_content(output, blocks), id, p.text_of(block.get("name")), failed
        )
    else:
        yield p.OtherPart(kind or "a block without a type")


def _reasoning(block: Block) -> p.ThinkingPart:
    """An item of Responses, or LangChain's block for any provider's."""
    thoughts = [
        p.text_of(each.get("text")) for each in p.listed(block.get("summary")) if p.mapped(each)
    ]
    thoughts += [
        p.text_of(each.get("text")) for each in p.listed(block.get("content")) if p.mapped(each)
    ]
    extras = p.mapped(block.get("extras"))
    text = p.text_of(block.get("reasoning")) or "\n".join(thoughts)
    hidden = p.text_of(block.get("encrypted_content"))
    signed = p.text_of(extras.get("signature"))
    provider = p.text_of(extras.get("provider")) or ("gemini" if signed else "openai")
    return p.ThinkingPart(text, hidden or signed, provider, p.text_of(block.get("id")))


def _media(kind: str, block: Block) -> p.MediaPart | p.OtherPart:
    name = p.first_of(block, "filename", "title", "name") or p.mapped(block.get("extras")).get(
        "name"
    )
    media_type = p.text_of(p.first_of(block, "mime_type", "media_type"))
    held = p.first_of(block, "image_url", "input_audio", "file", "source")
    if isinstance(held, str):
        return p.media(kind, held, media_type, name)
    if isinstance(held, Mapping):
        name = held.get("filename") or name
        media_type = (
            media_type or p.text_of(held.get("media_type")) or _of_format(held.get("format"))
        )
        if held.get("type") == "text":  # a document of Anthropic
            data = p.standard_base64(p.text_of(held.get("data")).encode())
            return p.MediaPart(kind, "text/plain", data=data, name=p.text_of(name))
        if held.get("type") == "content":
            return p.OtherPart("document of blocks")
    block = held if isinstance(held, Mapping) else block
    if id := p.text_of(block.get("file_id")):
        return p.MediaPart(kind, media_type, file_id=id, name=p.text_of(name))
    address = p.text_of(p.first_of(block, "url", "file_url", "image_url", "file_data"))
    if address.startswith("data:") or (address and "file_data" not in block):
        return p.media(kind, address, media_type, name)
    data = p.standard_base64(p.first_of(block, "data", "base64", "file_data"))
    kind = p.kind_of_media(media_type) if media_type and kind == "document" else kind
    return p.MediaPart(kind, media_type, data=data, name=p.text_of(name))


def _of_format(format: object) -> str:
    return f"audio/{format}" if isinstance(format, str) else ""
