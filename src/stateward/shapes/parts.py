"""The neutral form between all shapes: a message's role and its parts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

Message = dict[str, Any]

INVALID = "INVALID_JSON"  # key of arguments that are no JSON object, where the target wants one
INPUT = "input"  # key of a custom tool call's text, where the target has only arguments


class TextPart(Struct, frozen=True):
    """Words."""

    text: str
    refusal: bool = False
    cited: bool = False  # it names its sources, in a form of its provider


class MediaPart(Struct, frozen=True):
    """A picture, a sound, a film or a document: its data as base64, or where it lies."""

    kind: str  # image, audio, video or document
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: str = ""
    name: str = ""


class CallPart(Struct, frozen=True):
    """A call of a tool. Arguments are an object, or the text that the model wrote."""

    name: str
    arguments: Any
    id: str = ""
    custom: bool = False  # its input is a text, no JSON
    signature: str = ""  # of Gemini: ties the call to what was thought before


class DataPart(Struct, frozen=True):
    """A tool's answer as JSON."""

    value: Any


class OtherPart(Struct, frozen=True):
    """Content that only its own shape has, e.g. a search that the provider itself has made."""

    kind: str


class ResultPart(Struct, frozen=True):
    """The answer of a tool."""

    content: tuple[TextPart | MediaPart | DataPart | OtherPart, ...]
    id: str = ""
    name: str = ""
    failed: bool = False


class ThinkingPart(Struct, frozen=True):
    """A thought of the model; its provider wants the `signature` back with it."""

    text: str
    signature: str = ""
    provider: str = ""
    id: str = ""
    redacted: bool = False  # there is only the signature


Part = TextPart | MediaPart | CallPart | DataPart | OtherPart | ResultPart | ThinkingPart


class Speech(Struct):
    """A message: `role` is system, developer, user, assistant or tool.

    Messages of the assistant with the same `turn` were one answer of the model.
    """

    role: str
    parts: list[Part]
    name: str = ""
    turn: str = ""
    shape: str = ""
    raw: Message = {}


# --- reading ------------------------------------------------------------------------------------


def listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mapped(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text_of(value: object) -> str:
    """A text as it is; nothing for what is none."""
    return value if isinstance(value, str) else ""


def first_of(block: Mapping[str, Any], *names: str) -> Any:
    """The first of these that is there, as Gemini's two spellings."""
    return next((block[name] for name in names if block.get(name) is not None), None)


def standard_base64(data: object) -> str:
    """Base64 in the usual alphabet: Google writes the other one, Strands marks what is bytes."""
    if isinstance(data, bytes):
        return base64.b64encode(data).decode()
    if isinstance(data, Mapping):
        data = data.get("data")
    text = text_of(data).replace("-", "+").replace("_", "/")
    return text + "=" * (-len(text) % 4)


def media(kind: str, url: object, media_type: object = "", name: object = "") -> MediaPart:
    """A picture or file by its URL, which may hold the data itself."""
    address = text_of(url)
    if not address.startswith("data:"):
        return MediaPart(kind, text_of(media_type), url=address, name=text_of(name))
    head, _, data = address.removeprefix("data:").partition(",")
    stated_type = head.split(";", 1)[0]
    return MediaPart(kind, text_of(media_type) or stated_type, data=data, name=text_of(name))


def kind_of_media(media_type: str) -> str:
    kind = media_type.split("/", 1)[0]
    return kind if kind in ("image", "audio", "video") else "document"


# --- writing ------------------------------------------------------------------------------------


def data_url(part: MediaPart) -> str:
    """Where it lies, or itself as a URL."""
    return part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def data_bytes(part: MediaPart) -> bytes:
    try:
        return base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def subtype(part: MediaPart) -> str:
    return part.media_type.split("/", 1)[-1].split(";", 1)[0]


def arguments_text(call: CallPart) -> str:
    """The arguments as JSON text, as the model wrote it if it wrote text."""
    if isinstance(call.arguments, str) and not call.custom:
        return call.arguments
    return json.dumps(arguments_object(call), ensure_ascii=False)


def arguments_object(call: CallPart) -> dict[str, Any]:
    """The arguments as an object; what is none is named as such."""
    arguments = call.arguments
    if call.custom:
        return {INPUT: arguments}
    if isinstance(arguments, str):
        arguments = parsed(arguments) if arguments.strip() else {}
    if isinstance(arguments, dict):
        return arguments
    return {} if arguments is None else {INVALID: call.arguments}


def parsed(text: str) -> Any:
    """Return the value of a JSON text, or the text if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def given_arguments(value: object) -> Any:
    """Arguments as a shape with objects has them; one that was no object is that again."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(INVALID), str):
        return value[INVALID]
    return {} if value is None else value


def plain_text(parts: Iterable[Part]) -> str:
    """Return the parts of a result that a text can hold: words, and data as JSON."""
    lines = []
    for part in parts:
        if isinstance(part, TextPart):
            lines.append(part.text)
        elif isinstance(part, DataPart):
            lines.append(json.dumps(part.value, ensure_ascii=False))
    return "\n".join(lines)


def calls(parts: Iterable[Part]) -> list[CallPart]:
    return [part for part in parts if isinstance(part, CallPart)]


def results(parts: Iterable[Part]) -> list[ResultPart]:
    return [part for part in parts if isinstance(part, ResultPart)]


def result_content(value: object, blocks: Sequence[Part] = ()) -> tuple[Any, ...]:
    """Return the parts of a tool's answer: a text, blocks that were read already, or any JSON."""
    if blocks:
        held = TextPart | MediaPart | DataPart | OtherPart
        return tuple(part for part in blocks if isinstance(part, held))
    if isinstance(value, str):
        return (TextPart(value),)
    return () if value is None or value == [] else (DataPart(value),)
