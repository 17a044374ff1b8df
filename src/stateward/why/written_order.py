"""A thread's messages in the order in which they were written, and the appends they came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from stateward.records import Change, Late
from stateward.repeats.messages import speaker
from stateward.why.records import AppendSpan


def as_written(entries: Iterable[Change], late: Sequence[Late]) -> tuple[Change, ...]:
    """The messages in the order in which they were written, not in which they arrived."""

    def place(it: Change) -> tuple[float, bool, int]:
        return written(it, late), kept_span(it.version, late) is not None, it.version

    return tuple(sorted(entries, key=place))


def not_before(
    late: Iterable[Late], read: Mapping[int, int], entries: Sequence[Change]
) -> tuple[Late, ...]:
    """Late turns, none written before what its receipt says it had read.

    When it was written is estimated, to milliseconds; what it had read is known. `read` has the
    version that each of them had read, by its first message.
    """
    corrected = []
    for span in late:
        version = read.get(span.first, 0)
        read_at = [entry.at for entry in entries if entry.version <= version]
        corrected.append(replace(span, written_at=max([span.written_at, *read_at[-1:]])))
    return tuple(corrected)


def written(entry: Change, late: Sequence[Late]) -> float:
    """Return when a message was written, in seconds; a late turn, before it was stored."""
    span = kept_span(entry.version, late)
    return (entry.at if span is None else span.written_at).timestamp()


def kept_span(number: int, late: Sequence[Late]) -> Late | None:
    """The late turn that has this message."""
    return next((span for span in late if span.first <= number <= span.last), None)


def appends_of(entries: Sequence[Change], late: Sequence[Late]) -> list[AppendSpan]:
    """The appends that these messages came with, in the order in which they were written."""
    together: dict[str | None, list[Change]] = {}
    for entry in entries:
        together.setdefault(entry.cursor.stamp, []).append(entry)
    spans = []
    for group in together.values():
        first, last = group[0], group[-1]
        spilled = kept_span(first.version, late)
        at = first.at if spilled is None else spilled.written_at
        speaks = any(speaker(entry.message) == "assistant" for entry in group)
        span = (first.version, last.version, at, last.at, spilled is not None, speaks)
        spans.append(AppendSpan(*span))
    return spans


def span_of(number: int, spans: Sequence[AppendSpan]) -> AppendSpan | None:
    return next((span for span in spans if span.first <= number <= span.last), None)
