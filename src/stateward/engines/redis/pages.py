"""The first page of what an owner has, asked for as if the index still said what it said last.

One round trip instead of two, and nearly always right: most users have the same few unfinished
workflows as a moment ago. Where it is wrong, `listing.py` does it the ordinary way. No I/O here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from stateward.engines.redis.client.wire import pack
from stateward.engines.redis.commit import Command
from stateward.engines.redis.listing import LARGEST, IndexPage, Range, asked_of, owned
from stateward.engines.redis.plans import Traits, packed_read
from stateward.ops import List, Listed


class GuessedPage:
    """What is asked for, and how many replies that gets."""

    def __init__(self, op: List, setting: Traits, index: IndexPart) -> None:
        self._op = op
        self._setting = setting
        self._index = index
        self._guess = setting.listed.guess(index.asked)
        self._page = IndexPage(op, setting)
        candidates = [self._page.candidate(index.part, member) for member in self._guess]
        self._candidates = candidates
        looks = [packed_read(c.entity, None, op.documents, False) for c in candidates]
        self.packed = b"".join([index.packed, *[packed for packed, _ in looks]])
        self.replies = 1 + sum(count for _, count in looks)

    def outcome(self, time: Any, replies: Sequence[Any]) -> Listed | None:
        """The page; None if it is not as it was expected to be."""
        members = replies[0]
        if members != self._guess or len(members) >= self._index.size:
            self._setting.listed.learn(self._index.asked, members)
            return None
        count = 2 if self._op.documents else 1
        for number, candidate in enumerate(self._candidates):
            at = 1 + number * count
            self._page.judge(candidate, (time, *replies[at : at + count]), self._index.part)
        return self._page.whole()


class IndexPart(NamedTuple):
    """A part of an index, and the command that shows it."""

    part: Range
    asked: Command
    size: int
    packed: bytes


def guessed_page(op: List, setting: Traits) -> GuessedPage | None:
    """For the first page of what an owner has of one kind, on one server; None for any other."""
    if not op.owner or op.kind is None or op.due or op.within is not None or not setting.inline:
        return None
    if op.after is not None or op.reverse:
        return None
    index = _index(op.namespace, op.kind, op.owner, op.status or "", op.prefix, op.limit)
    return None if setting.listed.is_long(index.asked) else GuessedPage(op, setting, index)


@lru_cache(maxsize=4096)
def _index(
    namespace: str, kind: str, owner: str, status: str, prefix: str, limit: int
) -> IndexPart:
    part = owned(namespace, kind, owner, status, prefix)
    size = min(limit + 1, LARGEST)
    asked = asked_of(part, None, size, False)
    return IndexPart(part, asked, size, pack([asked]))
