"""Whether the model had been given what it asked for again: the receipt of its turn tells.

A question about something that was in the window is the model's, or the prompt's. One about
something that was never given to the model is lost context.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.records import Change, Document
from stateward.repeats.facts import state_facts
from stateward.repeats.history import Repeat
from stateward.repeats.messages import speaker
from stateward.state.window_record import Knowledge


def holder(repeat: Repeat, messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of the message with the repeated value: for a question, its reply."""
    if repeat.kind != "asked_again" or repeat.earlier is None:
        return repeat.earlier
    replies = range(repeat.earlier + 1, repeat.at)
    return next((at for at in replies if speaker(messages[at]) == "user"), repeat.earlier)


def users_numbers(entries: Iterable[Change]) -> list[int]:
    """Return the numbers of the messages in which a user speaks, in their order."""
    return sorted(entry.version for entry in entries if speaker(entry.message) == "user")


def is_answered(number: int, at: int, spoken: Sequence[int]) -> bool:
    """Return whether a message is of the turn that shows the repeat: no user spoke in between.

    The message must be of the same append, too: the model had every message of that append.
    `spoken` are the `users_numbers` of the thread.
    """
    return bisect_right(spoken, number) >= bisect_left(spoken, at)


def with_receipts(
    repeats: Iterable[Repeat], entries: Sequence[Change], knew: Mapping[int, Knowledge | None]
) -> list[Repeat]:
    """Return the repeats, each with `given`: whether the model had the value it asked for.

    `entries` are those whose messages the repeats were found in, of `load(…, entries=True)`; `knew`
    is what `store.knew` gave, by the number of the message that shows the repeat.
    """
    messages = [entry.message for entry in entries]
    spoken = users_numbers(entries)
    judged = []
    for repeat in repeats:
        was_there: bool | None
        at, held = entries[repeat.at], holder(repeat, messages)
        if held is not None and entries[held].cursor.stamp == at.cursor.stamp:
            was_there = is_answered(entries[held].version, at.version, spoken) or None
        else:
            number = None if held is None else entries[held].version
            was_there = was_given(repeat, number, knew.get(at.version))
        judged.append(replace(repeat, given=was_there))
    return judged


def was_given(repeat: Repeat, number: int | None, knew: Knowledge | None) -> bool | None:
    """Return whether the turn that shows the repeat had the value; None: unknown.

    `number` is the number of the message with the value; None: the user's state has the value.
    """
    if knew is None or repeat.kind == "complaint":
        return None
    if knew.receipt.unread:
        return False
    if number is None:
        return slot_given(repeat.evidence, knew)
    if any(gone.what == "message" and not gone.name for gone in knew.gone):
        return True if number in knew.numbers else None
    return number in knew.numbers


def slot_given(slot: str, knew: Knowledge) -> bool | None:
    """Return whether the model was given a slot of the user's documents: `profile.email`."""
    if any(fact.name == slot for fact in state_facts(values_of(knew.user))):
        return True
    stale = any(gone.what == "document" for gone in knew.gone)
    return None if stale else False  # a stale version may be gone


def values_of(documents: Mapping[str, Document]) -> dict[str, Any]:
    return {name: document.value for name, document in documents.items()}


def document_with(slot: str, documents: Mapping[str, Document]) -> str | None:
    """Return the document that has this slot, or None."""
    for name, document in documents.items():
        if any(fact.name == slot for fact in state_facts({name: document.value})):
            return name
    return None
