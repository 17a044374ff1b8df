"""Items of OpenAI's Conversations API: which may be stored, and how a message is told as one.

What was given is stored as it was given; what OpenAI adds when it tells an item is added when it is
told. An item that brings an id along keeps it. Every other one is named by its place in the log, so
that it is found without a search. No I/O here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from stateward.codec import decode, encode
from stateward.errors import InvalidInput
from stateward.ops import Entry
from stateward.shapes import shape_of
from stateward.shapes.single_message import items_alone

ROLES = frozenset({"user", "assistant", "system", "developer"})
# By type, what the ids of OpenAI's items begin with.
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "file_search_call": "fs",
    "web_search_call": "ws",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "code_interpreter_call": "ci",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "mcp_call": "mcp",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "additional_tools": "at",
    "configuration_update": "cfg",
    "compaction": "cmp",
    "program": "prg",
    "program_output": "prgo",
}
REFERENCES = frozenset({"item_reference", "compaction_trigger"})  # no items of their own
KNOWN = PREFIXES.keys() | REFERENCES
# What OpenAI tells with a status, whether one was given or not.
WITH_STATUS = frozenset(
    {
        *("message", "function_call", "function_call_output", "computer_call_output"),
        *("shell_call", "shell_call_output", "tool_search_call", "tool_search_output"),
        *("local_shell_call", "program_output", "web_search_call", "file_search_call"),
    }
)
# Of the content of a message, as OpenAI's own client knows them.
PARTS = frozenset(
    {
        *("input_text", "input_image", "input_file", "output_text", "refusal"),
        *("summary_text", "reasoning_text", "computer_screenshot"),
    }
)
OWN_SHAPES = ("openai-responses", "plain")
OWN_ID = re.compile(r"[!-~]{1,256}")  # what a path can hold
PLACE = re.compile(r"[a-z]+_([0-9a-f]{12})([0-9a-f]{2})([0-9a-f]{10})")


class ItemPlace(NamedTuple):
    """Where an item stands: the number of its message, and which of that message's items it is."""

    number: int
    part: int
    mark: str  # of the append that it came with: another history has other marks


class ToldItem(NamedTuple):
    """An item as it is told, and where it stands."""

    item: dict[str, Any]
    place: ItemPlace
    alone: bool  # its message is this item, and no other

    @property
    def placed_id(self) -> str:
        """An id that is found without a search, whatever the item brought along."""
        return _id(self.item["type"], self.place)


# --- what may be stored -----------------------------------------------------------------


def checked_items(items: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The items as they are stored; what OpenAI would refuse is refused."""
    ids: set[str] = set()
    for index, item in enumerate(items):
        where = f"items[{index}]"
        kind = item.get("type") or "message"
        if not isinstance(kind, str) or kind not in KNOWN:
            raise InvalidInput(f"{where}.type is {kind!r}, and must be one of {_types()}")
        if kind in REFERENCES:
            raise InvalidInput(f"{where} is a {kind}, which cannot be stored: send the item itself")
        if kind == "message":
            _check_message(where, item)
        if not _is_item(item):
            raise InvalidInput(f"{where} is a message of another API: send items of OpenAI's")
        own = item.get("id")
        if own is None:
            continue
        if not isinstance(own, str) or not OWN_ID.fullmatch(own):
            raise InvalidInput(f"{where}.id is 1 to 256 printable ASCII characters, without spaces")
        if own in ids:
            raise InvalidInput(f"{where}.id: duplicate item found with id {own!r}")
        ids.add(own)
    return tuple(items)


def _check_message(where: str, item: dict[str, Any]) -> None:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput(
            f"{where}.role is {role!r}, and must be one of {', '.join(sorted(ROLES))}"
        )
    parts = content if isinstance(content, list) else ()
    if not isinstance(content, str | list) or any(not isinstance(part, dict) for part in parts):
        raise InvalidInput(f"{where}.content must be text, or a list of content parts")
    for at, part in enumerate(parts):
        if _kind(part) not in PARTS:
            types = ", ".join(sorted(PARTS))
            raise InvalidInput(f"{where}.content[{at}].type must be one of {types}")


def _kind(part: dict[str, Any]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _types() -> str:
    return ", ".join(sorted(PREFIXES))


# --- how it is told ---------------------------------------------------------------------


def told_items(entry: Entry) -> list[ToldItem]:
    """A stored message as items, each with its id."""
    mark = mark_of(entry.stamp)
    told, items = [], items_of(decode(entry.body))
    for part, item in enumerate(items):
        place = ItemPlace(entry.seq, part, mark)
        own = item.get("id")
        id = own if isinstance(own, str) and own else _id(item["type"], place)
        told.append(ToldItem({**item, "id": id}, place, len(items) == 1))
    return told


def items_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as OpenAI tells it; that of another framework may be several items, or none."""
    if _is_item(message):
        return [_told(message)]
    items = items_alone(message)
    if not items and (items is None or shape_of(message) in OWN_SHAPES):
        # Whoever has stored it knows what it is.
        text = {"type": "input_text", "text": encode(message, "the message")}
        items = [{"role": "unknown", "content": [text]}]
    return [_told(item) for item in items]


def _is_item(message: dict[str, Any]) -> bool:
    kind, content = message.get("type") or "message", message.get("content")
    if isinstance(kind, str) and kind != "message":
        return kind in PREFIXES
    role, parts = message.get("role"), content if isinstance(content, list) else ()
    return (
        isinstance(role, str)
        and role in ROLES
        and isinstance(content, str | list)
        and all(isinstance(part, dict) and _kind(part) in PARTS for part in parts)
        and shape_of(message) in OWN_SHAPES
    )


def _told(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type") or "message"
    shown = {"type": kind, **{name: value for name, value in item.items() if name != "type"}}
    if kind == "message":
        content = item["content"]
        if isinstance(content, str):
            text = "output_text" if item["role"] == "assistant" else "input_text"
            content = [{"type": text, "text": content}]
        shown["content"] = [_part(part) for part in content]
    if kind in WITH_STATUS and shown.get("status") is None:
        shown["status"] = "completed"
    return shown


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "output_text" and part.get("annotations") is None:
        return {**part, "annotations": []}
    if part["type"] == "input_image" and part.get("detail") is None:
        return {**part, "detail": "auto"}
    return part


# --- ids --------------------------------------------------------------------------------


def mark_of(stamp: str) -> str:
    return blake2b(stamp.encode(), digest_size=5).hexdigest()


def place_of(id: str) -> ItemPlace | None:
    """Return the place of an item by its id; None if the item brought the id along."""
    match = PLACE.fullmatch(id)
    if match is None:
        return None
    number, part, mark = match.groups()
    return ItemPlace(int(number, 16), int(part, 16), mark)


def _id(kind: str, place: ItemPlace) -> str:
    return f"{PREFIXES.get(kind, 'item')}_{place.number:012x}{place.part:02x}{place.mark}"
