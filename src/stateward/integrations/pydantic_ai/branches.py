"""The branch of messages that a conversation follows, and the branches that it has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.conversation_store import ConversationEntry

from stateward.codec import decode, encode
from stateward.context.compaction import SUMMARY
from stateward.integrations.pydantic_ai.messages import as_stored
from stateward.layers.outage.edits import EDITS, edited
from stateward.ops import Delete, Fetched, Put, Replace, Write

LEFT = "pydantic-ai branch "  # prefix of left branches, before the id of the last entry
ENTRY = "pydantic_ai"  # the key beside a message with the id of its entry

Kept = tuple[str, dict[str, Any]]  # the id of an entry, and its stored message


def entry_id(id: str, number: int, message: dict[str, Any]) -> str:
    """Return the id of an entry; an entry without one is named by its place."""
    named = message.get(ENTRY)
    return named if isinstance(named, str) else f"{number} of {id}"


def kept_as(entries: Sequence[ConversationEntry]) -> list[Kept]:
    messages = as_stored([entry.message for entry in entries])
    return [(entry.id, message) for entry, message in zip(entries, messages, strict=True)]


def linked(log: list[Kept], fetched: Fetched) -> dict[str, tuple[str | None, Kept]]:
    """Return all entries of a conversation, also of left branches, each with its parent."""
    lines = [
        (each["after"], [(id, message) for id, message in each["entries"]])
        for name, value in fetched.documents.items()
        if name.startswith(LEFT)
        for each in (decode(value.json),)
    ]
    entries: dict[str, tuple[str | None, Kept]] = {}
    for before, line in (*lines, (None, log)):
        for entry in line:
            entries[entry[0]] = (before, entry)
            before = entry[0]
    return entries


def line_to(head: str | None, log: list[Kept], fetched: Fetched) -> list[Kept]:
    """Return the history up to an entry, also of a left branch; or raise `LookupError`."""
    entries = linked(log, fetched)
    line: list[Kept] = []
    while head is not None:
        head, entry = entries[head]
        line.append(entry)
    return line[::-1]


def left_behind(
    removed: list[tuple[int, Kept]], before: list[Kept], fetched: Fetched
) -> Iterator[Write]:
    """Return the writes that move the end of the history from the log to a document."""
    if not removed:
        return
    numbers = dict.fromkeys(number for number, _ in removed)
    yield Replace(numbers)
    yield edited(fetched.documents.get(EDITS), fetched.head, numbers)
    if SUMMARY in fetched.documents:  # the summary may contain the removed messages
        yield Delete(SUMMARY)
    line = {"after": before[-1][0] if before else None, "entries": [entry for _, entry in removed]}
    yield Put(LEFT + removed[-1][1][0], encode(line, "a branch"))
