"""Older turns as one block of text: when it is due, what it covers, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stateward.codec import check_count, check_ttl
from stateward.context.tool_pairs import Message, may_start, seen_as
from stateward.context.units import lay_out
from stateward.errors import InvalidInput
from stateward.ops import Head, Value
from stateward.records import Shaper, Summary, moment

SUMMARY = "summary"  # the document beside the thread

Summarize = Callable[[str | None, list[Message]], Any]


class Compaction:
    """How a conversation's older turns are summarised.

    `summarize(previous, messages)` gets the summary so far (None at first) and the messages that
    follow it, and returns the new summary as text; it may be async. It is called when more than
    `after` messages are not covered yet, for all but the newest `keep` or a few more: turns are
    not divided. At most about `most` messages go into one call. With `background=True` the load
    that finds it due does not wait for it.
    """

    def __init__(
        self,
        summarize: Summarize,
        *,
        after: int = 40,
        keep: int = 20,
        most: int = 200,
        background: bool = False,
        ttl: float = 30.0,
    ) -> None:
        if not callable(summarize):
            raise InvalidInput("summarize is a function of (previous, messages) that returns text")
        self.summarize = summarize
        self.after = check_count(after, "after")
        self.keep = check_count(keep, "keep")
        self.most = check_count(most, "most")
        if keep > after:
            raise InvalidInput(f"keep={keep} is more than after={after}; nothing would be due")
        self.background = background
        self.ttl = check_ttl(ttl)


class Kept(msgspec.Struct, omit_defaults=True):
    """A summary as it is stored.

    `system` messages at the thread's beginning are not summarised. `gaps` is how many messages the
    thread had lost when it was read for this: another number later means that history was changed
    under it. `making` is how far a summary may reach that someone is making right now.
    """

    text: str | None = None
    upto: int = 0
    messages: int = 0
    system: int = 0
    gaps: int = 0
    making: int = 0

    def json(self) -> str:
        return msgspec.json.encode(self).decode()


def kept(value: Value | None, head: Head) -> Kept:
    """The summary that still holds, or an empty one."""
    if value is None:
        return Kept()
    stored = msgspec.json.decode(value.json, type=Kept)
    if stored.text is None or stored.gaps != gaps(head) or stored.upto > head.version:
        return Kept(making=stored.making)
    return stored


def gaps(head: Head) -> int:
    """How many messages were removed from the thread."""
    return head.version - head.live


def as_summary(stored: Kept, value: Value | None) -> Summary | None:
    """The record of a summary, if there is one."""
    if stored.text is None or value is None:
        return None
    return Summary(stored.text, stored.upto, stored.messages, moment(value.updated))


def cut_at(
    messages: Sequence[Message], most: int, allowed: int, shaper: Shaper | None = None
) -> int | None:
    """How many of these messages to summarise: up to where a turn begins.

    At most `most` if a turn begins among those, and never more than `allowed`. None: no turn does.
    """
    messages = seen_as(messages, shaper)
    starts = [
        unit.start
        for unit in lay_out(messages, complete=True).units
        if 0 < unit.start <= allowed and may_start(messages[unit.start])
    ]
    within = [start for start in starts if start <= most]
    return within[-1] if within else starts[0] if starts else None


def check_compaction(
    compaction: Any, after: Any, upto: Any, exact: bool = False
) -> Compaction | None:
    """Return the argument `summarize=`, if it can be used together with the rest."""
    if compaction is None:
        return None
    if not isinstance(compaction, Compaction):
        raise InvalidInput("summarize= is a Compaction, e.g. Compaction(summarize, after=40)")
    if after is not None or upto is not None:
        raise InvalidInput("a summary is for the end of a thread: give summarize= without after=")
    if exact:
        raise InvalidInput("exact=True is for messages as they are: give it without summarize=")
    return compaction
