"""Messages that were rewritten or removed, and when: receipts show what has changed since.

A document of the thread. `Head.commits` numbers every commit, so a change with a greater number
than a receipt was made after it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stateward.ops import Head, Put, Value

EDITS = "edits"  # the name of the document
MOST_EDITS = 500  # spans that are kept; of older ones only the last commit

Span = tuple[int, int, int, int]  # first, last, the commit's number, 1 if they were removed


class Edits(msgspec.Struct, omit_defaults=True):
    """Spans of messages, oldest change first. Commits up to `since` are not covered."""

    spans: list[Span] = []
    since: int = 0

    def after(self, commits: int) -> dict[int, str]:
        """Return by number which messages were `edited` or `removed` after that commit."""
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
    """Return the document for a commit that rewrites these messages (None: removes them)."""
    before, made = edits_of(value), head.commits + 1
    spans = list(before.spans)
    for number in sorted(changes):
        removed = int(changes[number] is None)
        last = spans[-1] if spans else (0, 0, 0, 0)
        if last[1:] == (number - 1, made, removed):
            spans[-1] = (last[0], number, made, removed)
        else:
            spans.append((number, number, made, removed))
    newest = spans[-MOST_EDITS:]
    since = spans[-MOST_EDITS - 1][2] if len(newest) < len(spans) else before.since
    return Put(EDITS, msgspec.json.encode(Edits(newest, since)).decode())
