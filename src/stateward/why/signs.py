"""Signs of lost context by the numbers of a thread, and the turn to look at. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from stateward.errors import InvalidInput
from stateward.records import Cursor, Document
from stateward.repeats import Repeat, find_repeats
from stateward.repeats.find import EmbedFunction
from stateward.repeats.given import holder
from stateward.repeats.messages import speaker
from stateward.why.explanation import strongest
from stateward.why.records import AppendSpan, ReadThread, Sign
from stateward.why.written_order import span_of


def repeats_in(
    read: ReadThread,
    documents: Mapping[str, Document],
    known: Mapping[str, Document],
    embed: EmbedFunction | None = None,
) -> list[Repeat]:
    """Find what was asked or done again although it had been said.

    `documents` are the user's; what they hold counts from the thread's beginning if it is older
    than that. `known` counts from there in any case.
    """
    messages = [entry.message for entry in read.entries]
    older = {name: each for name, each in documents.items() if each.updated < read.created}
    now = {name: each for name, each in documents.items() if name not in older}
    return find_repeats(messages, user=now, before={**older, **known}, embed=embed)


def signs_of(repeats: Iterable[Repeat], read: ReadThread) -> list[Sign]:
    """The repeats by the thread's numbers, each with the turn that it speaks against."""
    messages = [entry.message for entry in read.entries]
    spans: dict[int, AppendSpan] = {}
    for span in read.appends:
        for version in range(span.first, span.last + 1):
            spans.setdefault(version, span)
    speaks = [at for at, message in enumerate(messages) if speaker(message) == "assistant"]

    def number(at: int | None) -> int | None:
        return None if at is None else read.entries[at].version

    def turn(repeat: Repeat) -> int:
        at = repeat.at
        if repeat.kind == "complaint":  # of what the assistant said before
            before = bisect_left(speaks, at)
            at = speaks[before - 1] if before else at
        version = read.entries[at].version
        return spans[version].last if version in spans else version

    return [
        Sign(
            repeat.kind,
            read.entries[repeat.at].version,
            turn(repeat),
            number(repeat.earlier),
            number(holder(repeat, messages)),
            repeat.evidence,
            repeat.score,
            repeat.given,
        )
        for repeat in repeats
    ]


def turn_of(
    read: ReadThread, signs: Sequence[Sign], at: Cursor | None, *, has_receipt: bool = False
) -> AppendSpan:
    """The turn that was asked for: of a question that was stored alone, the answer to it.

    What has a receipt was a turn, even if its answer was rewritten since.
    """
    if at is None:
        sign = strongest(signs)
        span = None if sign is None else span_of(sign.turn, read.appends)
        spoken = [each for each in read.appends if each.speaks]
        return span or (spoken or list(read.appends))[-1]
    span = span_of(at.version, read.appends)
    if span is None:
        raise InvalidInput(
            f"the thread {read.id!r} has no message {at.version}: it was removed, has expired, or "
            "was never there"
        )
    following = read.appends[read.appends.index(span) :]
    if span.speaks or has_receipt:
        return span
    return next((each for each in following if each.speaks), span)
