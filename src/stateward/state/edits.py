"""Which messages were rewritten or removed, and when: a receipt asks what is not as it was.

A document beside the thread. `Head.commits` numbers all that was ever done to it, so whatever has a
greater number than a receipt was changed after it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stateward.ops import Head, Put, Value

EDITS = "edits"  # the document beside the thread
MOST_EDITS = 500  # spans that are kept; of older ones it is only known that there were some

Span = tuple[int, int, int, int]  # first, last, the commit's number, 1 if they were removed


class Edits(msgspec.Struct, omit_defaults=True):
    """Spans of messages, oldest change first. Nothing is known of commits up to `since`."""

    spans: list[Span] = []
    since: int = 0

    def after(self, commits: int) -> dict[int, str]:
        """What was done to which message after that commit: `edited` or `removed`."""
        return {
            number: "removed" if removed else "edited"
            for first, last, made, removed in self.spans
            if made > commits
            for number in range(first, last + 1)
        }


_decode = msgspec.json.Decoder(Edits).decode


def edits_of(value: Value | None) -> Edits:
    return Edits() if value is None else _decode(value.json)


def edited(value: Value | None, head: Head, changes: Mapping[int, str | None]) -> Put:
    """The document after a commit that rewrites these messages (None: removes them)."""
    before, made = edits_of(value), head.commits + 1
    spans = list(before.spans)
    for number in sorted(changes):
        removed = int(changes[number] is None)
        last = spans[-1] if spans else (0, 0, 0, 0)
        if last[1:] == (number - 1, made, removed):
            spans[-1] = (last[0], number, made, removed)
        else:
            spans.append((number, number, made, removed))
    kept = spans[-MOST_EDITS:]
    since = spans[-MOST_EDITS - 1][2] if len(kept) < len(spans) else before.since
    return Put(EDITS, msgspec.json.encode(Edits(kept, since)).decode())
