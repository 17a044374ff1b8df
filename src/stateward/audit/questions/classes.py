"""Classes of difference in words: a sentence, a remedy, and what users notice of each."""

from __future__ import annotations

from typing import NamedTuple

from stateward.audit.differences import (
    AGAIN,
    ALTERED,
    ERROR,
    FOREIGN,
    LATE,
    MISSING,
    NEVER,
    OWN,
    REORDERED,
    RESULT,
    SPLIT,
    STALE,
    SURPLUS,
    TOLD,
)


class DifferenceClass(NamedTuple):
    sentence: str
    remedy: str
    means: str


CLASSES = {
    MISSING: DifferenceClass(
        "something that was stored is missing",
        "Acknowledge only what the store has written, and return all of it.",
        "Something that was said or written is gone.",
    ),
    SURPLUS: DifferenceClass(
        "there is more than was stored",
        "Store what is delivered or tried again once, and return nothing else.",
        "Something is there twice, or was never said.",
    ),
    REORDERED: DifferenceClass(
        "messages come back in another order",
        "Order by a number that every message gets when it is stored, never by a time alone.",
        "The model reads messages in another order than they were said.",
    ),
    ALTERED: DifferenceClass(
        "what was stored comes back changed",
        "Serialise without conversions, and put no limit on lengths.",
        "What users wrote, or a tool returned, comes back changed.",
    ),
    STALE: DifferenceClass(
        "an earlier state is returned",
        "Read from the store itself, or drop cached copies before a write is acknowledged.",
        "The agent answers from an earlier state.",
    ),
    FOREIGN: DifferenceClass(
        "what is stored under another id is returned",
        "Use ids unchanged, compare them byte for byte, and bind every query to its full id.",
        "A user is shown what belongs to another.",
    ),
    SPLIT: DifferenceClass(
        "messages of another turn are in the middle of a turn",
        "Write all messages of a turn in one transaction, under consecutive numbers.",
        "The model reads two turns mixed with each other.",
    ),
    ERROR: DifferenceClass(
        "a call fails with {error}",
        "Find out why this call fails; if a value cannot be stored, document that.",
        "A call that should succeed ends in an error.",
    ),
    LATE: DifferenceClass(
        "a call does not end in time",
        "Give every call a timeout, and release locks and connections when a call ends.",
        "The agent hangs instead of answering.",
    ),
    AGAIN: DifferenceClass(
        "work that was done is done again",
        "Record that work is done before it is acknowledged, and claim it in one atomic write.",
        "Work is done twice.",
    ),
    NEVER: DifferenceClass(
        "work that should run does not run",
        "Record work as done when its function has returned, and release claims of the dead.",
        "Work is never done.",
    ),
    TOLD: DifferenceClass(
        "a call reports success and has done nothing",
        "Report what the store reports: an error for whatever was not done.",
        "The agent believes in work that was never done.",
    ),
    RESULT: DifferenceClass(
        "the work is done once, but its result is not returned",
        "Record the result together with the fact that the work is done.",
        "The result of finished work is lost.",
    ),
}
# Of a promise that says nothing else, its own sentence is true of every class but these.
NOT_OWN = (ERROR, LATE)
ALL = tuple(kind for kind in (OWN, *CLASSES) if kind not in NOT_OWN)
