"""Whether the model had been given what it asked for again: the receipt of its turn tells.

A question about something that was in the window is the model's, or the prompt's. One about
something that was never given to the model is lost context.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.records import Change, Document, Knowledge
from stateward.repeats.facts import state_facts
from stateward.repeats.history import Repeat
from stateward.repeats.messages import speaker


def holder(repeat: Repeat, messages: Sequence[Mapping[str, Any]]) -> int | None:
    """The index of the message that has what is asked for again: of a question, its reply."""
    if repeat.kind != "asked_again" or repeat.earlier is None:
        return repeat.earlier
    replies = range(repeat.earlier + 1, repeat.at)
    return next((at for at in replies if speaker(messages[at]) == "user"), repeat.earlier)


def users_numbers(entries: Iterable[Change]) -> list[int]:
    """The numbers of the messages in which a user speaks, in their order."""
    return sorted(entry.version for entry in entries if speaker(entry.message) == "user")


def is_answered(number: int, at: int, spoken: Sequence[int]) -> bool:
    """Whether a message is of the very turn that shows the repeat: no user spoke in between.

    It has to be of the same append too. What came with the question or after it, the model had.
    `spoken` are the `users_numbers` of the thread.
    """
    return bisect_right(spoken, number) >= bisect_left(spoken, at)


def with_receipts(
    repeats: Iterable[Repeat], entries: Sequence[Change], knew: Mapping[int, Knowledge | None]
) -> list[Repeat]:
    """The repeats, each with `given`: whether the model had been given what it asked for.

    `entries` are those whose messages the repeats were found in, of `load(…, entries=True)`; `knew`
    is what `store.knew` gave, by the number of the message that shows the repeat.
    """
    messages = [entry.message for entry in entries]
    spoken = users_numbers(entries)
    found = []
    for repeat in repeats:
        given: bool | None
        at, held = entries[repeat.at], holder(repeat, messages)
        if held is not None and entries[held].cursor.stamp == at.cursor.stamp:
            given = is_answered(entries[held].version, at.version, spoken) or None
        else:
            number = None if held is None else entries[held].version
            given = was_given(repeat, number, knew.get(at.version))
        found.append(replace(repeat, given=given))
    return found


def was_given(repeat: Repeat, number: int | None, knew: Knowledge | None) -> bool | None:
    """Whether the turn that shows the repeat had been given it; None: that is not known.

    `number` is that of the message that has it, in the thread; None: the user's state has it.
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
    """Whether a slot of the user's documents was among what was given: `profile.email`."""
    if any(fact.name == slot for fact in state_facts(values_of(knew.user))):
        return True
    stale = any(gone.what == "document" for gone in knew.gone)
    return None if stale else False  # the version that was given may not be kept any more


def values_of(documents: Mapping[str, Document]) -> dict[str, Any]:
    return {name: document.value for name, document in documents.items()}


def document_with(slot: str, documents: Mapping[str, Document]) -> str | None:
    """The document that has this slot; None: none of them has it."""
    for name, document in documents.items():
        if any(fact.name == slot for fact in state_facts({name: document.value})):
            return name
    return None
