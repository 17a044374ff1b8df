"""The line of messages that a conversation follows, and the lines that it has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.conversation_store import ConversationEntry

from stateward.codec import decode, encode
from stateward.context.compaction import SUMMARY
from stateward.integrations.pydantic_ai.messages import as_stored
from stateward.ops import Delete, Fetched, Put, Replace, Write
from stateward.state.edits import EDITS, edited

LEFT = "pydantic-ai branch "  # begins the names of what was left, by the id of its last entry
ENTRY = "pydantic_ai"  # beside a message: the id of its entry

Kept = tuple[str, dict[str, Any]]  # the id of an entry, and its message as it is stored


def entry_id(id: str, number: int, message: dict[str, Any]) -> str:
    """The id of an entry; one that came another way is named by its place."""
    named = message.get(ENTRY)
    return named if isinstance(named, str) else f"{number} of {id}"


def kept_as(entries: Sequence[ConversationEntry]) -> list[Kept]:
    messages = as_stored([entry.message for entry in entries])
    return [(entry.id, message) for entry, message in zip(entries, messages, strict=True)]


def linked(log: list[Kept], fetched: Fetched) -> dict[str, tuple[str | None, Kept]]:
    """All entries of a conversation, also those that it has left, each with the one before it."""
    lines = [
        (each["after"], [(entry, message) for entry, message in each["entries"]])
        for name, value in fetched.documents.items()
        if name.startswith(LEFT)
        for each in (decode(value.json),)
    ]
    found: dict[str, tuple[str | None, Kept]] = {}
    for before, line in (*lines, (None, log)):
        for kept in line:
            found[kept[0]] = (before, kept)
            before = kept[0]
    return found


def line_to(head: str | None, log: list[Kept], fetched: Fetched) -> list[Kept]:
    """The history up to an entry, which may be one of a branch that was left, or `LookupError`."""
    known = linked(log, fetched)
    line: list[Kept] = []
    while head is not None:
        head, kept = known[head]
        line.append(kept)
    return line[::-1]


def left_behind(
    gone: list[tuple[int, Kept]], before: list[Kept], fetched: Fetched
) -> Iterator[Write]:
    """Takes the end of the history out of the log, and keeps it beside."""
    if not gone:
        return
    numbers = dict.fromkeys(number for number, _ in gone)
    yield Replace(numbers)
    yield edited(fetched.documents.get(EDITS), fetched.head, numbers)
    if SUMMARY in fetched.documents:  # it may say what is removed here
        yield Delete(SUMMARY)
    line = {"after": before[-1][0] if before else None, "entries": [kept for _, kept in gone]}
    yield Put(LEFT + gone[-1][1][0], encode(line, "a branch"))
