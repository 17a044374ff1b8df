"""A transcript as Claude Code reads it, also with messages of other frameworks in between.

A line of Claude Code's own is given as it was stored. A message of another framework becomes one:
translated by `stateward.shapes`, and linked to the line before it. Its `uuid` is always the same,
so that what Claude Code links to it finds it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple, cast
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from stateward.codec import decode
from stateward.ops import Head, Value
from stateward.shapes import shape_of, translate
from stateward.state.conversation_life import Life

CALLS = re.compile(r"message|reasoning|compaction|mcp_\w+|\w+_call(_output)?")  # items of OpenAI's

TranscriptLine = dict[str, Any]


class Seen(NamedTuple):
    """The state of a transcript when last read or written here; enough to add lines to it."""

    head: Head
    uuids: set[str]  # uuids of stored lines; none is ever removed
    data: dict[str, Any]  # the SDK's summary of these lines
    life: Life | None = None  # of the transcript; lines are added to no other


def unseen() -> Seen:
    return Seen(Head(), set(), {})


def summarised(head: Head, value: Value | None) -> Seen:
    """Return the state up to the stored summary, which exists only for an unchanged transcript."""
    if value is None:
        return unseen()
    derived = decode(value.json)
    stamp = head.stamp if derived["version"] == head.version else ""
    return Seen(replace(head, version=derived["version"], stamp=stamp), set(), derived["data"])


# --- lines ---------------------------------------------------------------------------------


def mended(line: TranscriptLine) -> TranscriptLine:
    """Return a line with a mark for half a character: Claude Code may cut a text within one."""
    try:
        msgspec.json.encode(line)
    except UnicodeEncodeError:
        text = json.dumps(line, ensure_ascii=False)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return cast(TranscriptLine, json.loads(whole))
    return line


def uuids_of(entries: Iterable[TranscriptLine]) -> Iterable[str]:
    return (uuid for entry in entries if isinstance(uuid := entry.get("uuid"), str))


def unknown_of(entries: Iterable[TranscriptLine], known: set[str]) -> Iterable[TranscriptLine]:
    """Yield the lines that are not stored, each once; a line without a uuid counts as new."""
    among: set[str] = set()
    for entry in entries:
        uuid = entry.get("uuid")
        if not isinstance(uuid, str):
            yield entry
        elif uuid not in known and uuid not in among:
            among.add(uuid)
            yield entry


class StoredLine(NamedTuple):
    """A message of a transcript's thread: its number, its time, and its content."""

    seq: int
    at: float
    line: TranscriptLine

    @property
    def is_foreign(self) -> bool:
        """Return whether the message comes from another framework."""
        shape = shape_of(self.line)
        if shape == "openai-responses":  # any object with a `type` looks like a line of Claude Code
            return "role" in self.line or CALLS.fullmatch(self.line["type"]) is not None
        return shape not in ("claude", None)


def each_once(messages: Iterable[StoredLine]) -> list[StoredLine]:
    """Return the lines without repeats: two processes may have stored one during an outage."""
    lines: dict[str | int, StoredLine] = {}
    for each in messages:
        uuid = each.line.get("uuid")
        lines.setdefault(uuid if isinstance(uuid, str) else each.seq, each)
    return list(lines.values())


def transcript(
    stored: Sequence[StoredLine], thread: str, session_id: str, *, sidechain: bool
) -> list[TranscriptLine]:
    """Return all lines of a transcript, oldest first."""
    lines: list[TranscriptLine] = []
    leaf: str | None = None  # the parent of the next line
    for foreign, run in groupby(stored, key=lambda each: each.is_foreign):
        for line in _translated(list(run), thread) if foreign else (each.line for each in run):
            if foreign:
                about = {"sessionId": session_id, "isSidechain": sidechain, "userType": "external"}
                line = {"parentUuid": leaf, **about, **line}
            if "parentUuid" in line and (foreign or line.get("isSidechain", False) is sidechain):
                leaf = line.get("uuid", leaf)
            lines.append(line)
    return lines


def _translated(run: Sequence[StoredLine], thread: str) -> Iterable[TranscriptLine]:
    """Return messages of other frameworks as lines, not linked to a parent yet."""
    messages = translate([each.line for each in run], "anthropic").messages
    for number, message in enumerate(messages):
        uuid = uuid5(NAMESPACE_URL, f"stateward:{thread}/{run[0].seq}/{number}")
        at = datetime.fromtimestamp(run[min(number, len(run) - 1)].at, UTC)
        yield {
            "type": message["role"],
            "message": _as_answered(message, uuid.hex)
            if message["role"] == "assistant"
            else message,
            "uuid": str(uuid),
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }


def _as_answered(message: TranscriptLine, id: str) -> TranscriptLine:
    """Return an answer in the form of the model's API."""
    content = message["content"]
    return {
        "id": f"msg_{id}",
        "type": "message",
        "model": "stateward",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        **message,
        "content": [{"type": "text", "text": content}] if isinstance(content, str) else content,
    }
