"""The fast path: the everyday operations of a batch as one request, packed at once. No I/O here.

Appends to entities that were written before, reads of plain parts, and short listings. What comes
back settles nearly all of it. Whatever it does not settle (a refusal, a repetition, a new entity,
an error) was not done, and goes the ordinary way, by its plan.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engine import MINUTE
from stateward.engines.redis.append import append_command, append_words
from stateward.engines.redis.batch import Batch, plan_of
from stateward.engines.redis.client.pipeline import BLOCK
from stateward.engines.redis.client.replica_wait import ReplicaWait
from stateward.engines.redis.client.wire import Command, Word, pack, pack_one
from stateward.engines.redis.failures import NOT_RUN, code_of, failure
from stateward.engines.redis.fetch import packed_read, plain_outcome, plain_tail
from stateward.engines.redis.keys import head_key
from stateward.engines.redis.listing import IndexPage
from stateward.engines.redis.merge import LARGEST
from stateward.engines.redis.plans import Traits
from stateward.engines.redis.ranges import Range, asked_of, owned
from stateward.engines.redis.scripts import APPENDS
from stateward.errors import StoreUnavailable
from stateward.ops import Applied, Commit, Fetch, List, Listed, Op, Outcome

BEGIN = pack([("MULTI",), ("TIME",)])
END = pack([("EXEC",)])
MOST_SIZE = 256 * 1024  # bytes for one script, which blocks the server while it runs


def fast_request(ops: Sequence[Op], traits: Traits) -> FastRequest | None:
    """The request for these operations, if there is nothing unusual about any of them."""
    if traits.server.wait_replicas:  # replicas are waited for after each round
        return None
    if type(ops[0]) is Commit:
        return FastAppends.of(ops, traits)
    return FastReads.of(ops, traits)


class FastRequest:
    """A request, and what became of each operation: None is not settled."""

    writes = False

    def __init__(self, ops: Sequence[Op], traits: Traits, packed: bytes, replies: int) -> None:
        self.ops = ops
        self.packed = packed
        self.replies = replies  # number of replies to come
        self.outcomes: list[Any] = []
        self._traits = traits

    def message(self, wait: ReplicaWait, deadline: float | None) -> FastRequest:
        """Return the packed request, with the number of replies to it."""
        return self

    @property
    def keys(self) -> list[str]:
        """One key of each operation; the keys decide which server has it."""
        return [head_key(op.entity) for op in self.ops]  # type: ignore[union-attr]

    def take(self, replies: Sequence[Any], server: str) -> bool:
        """Take the replies; return True if they settle every operation."""
        raise NotImplementedError

    def rest(self) -> Batch:
        """Return the operations that are not settled, as a batch of plans."""
        outcomes = self.outcomes or [None] * len(self.ops)  # empty if the request was never sent
        pairs = zip(self.ops, outcomes, strict=True)
        plans = [plan_of(op, self._traits) for op, outcome in pairs if outcome is None]
        return Batch(plans, self._traits)

    def settle(self, rest: list[Outcome]) -> list[Outcome]:
        """Return all outcomes; `rest` are those of the operations that ran as plans."""
        others = iter(rest)
        return [next(others) if outcome is None else outcome for outcome in self.outcomes] or rest

    @property
    def wrote(self) -> bool:
        """True if anything has been written."""
        return self.writes and any(outcome is not None for outcome in self.outcomes)


class FastAppends(FastRequest):
    """Commits that only append: on one server a script for all, on a cluster one for each."""

    writes = True

    def __init__(
        self, ops: Sequence[Op], traits: Traits, packed: Sequence[bytes], counts: Sequence[int]
    ) -> None:
        super().__init__(ops, traits, b"".join(packed), len(packed))
        self._counts = counts  # operations in each script

    @classmethod
    def of(cls, ops: Sequence[Op], traits: Traits) -> FastAppends | None:
        written = traits.seen
        for op in ops:
            if type(op) is not Commit or op.entity not in written:
                return None
        scripts = (_together if traits.inline else _apart)(ops, traits)
        return None if scripts is None else cls(ops, traits, *scripts)

    def take(self, replies: Sequence[Any], server: str) -> bool:
        inline, outcomes = self._traits.inline, self.outcomes
        ops: Iterator[Any] = iter(self.ops)
        for reply, count in zip(replies, self._counts, strict=True):
            ran = type(reply) is list
            at = float(reply[0] or 0) if ran else 0.0
            for each in reply[1:] if ran else [reply] * count:  # 0, or the error of all
                op = next(ops)
                if each and type(each) is int:
                    outcomes.append(Applied(each, op.op, at))
                    if not inline:
                        self._touched(op, at)
                else:
                    self._check(op, each, server)
                    outcomes.append(None)
        return None not in outcomes

    def _check(self, op: Any, version: Any, server: str) -> None:
        """Raise for an append that was not applied, unless it may run as a plan."""
        if type(version) is not ReplyError:
            self._traits.seen.pop(op.entity, None)
        elif code_of(version) not in NOT_RUN:
            error = failure(version, server)
            if isinstance(error, StoreUnavailable):
                error.applied = "unknown"  # others may have been written as well
            raise error from version

    def _touched(self, op: Any, at: float) -> None:
        """Forget a wrong guess of the minute, so that the next append tells a cluster's index."""
        touched = self._traits.touched
        entry = touched.get(op.entity)
        if entry is None or entry.minute != int(at // MINUTE):
            touched.pop(op.entity, None)


PackedScripts = tuple[list[bytes], list[int]]  # and how many operations each of them is for


def _together(ops: Sequence[Any], traits: Traits) -> PackedScripts | None:
    """Pack one script for a whole batch or, of large bodies, for as many as fit."""
    clock = traits.at()
    if len(ops) == 1:
        command = append_command(ops[0], clock, None)
        return None if command is None else ([pack_one(command)], [1])
    scripts: PackedScripts = [], []
    heads: list[Word] = []
    words: list[Word] = []
    counts: list[int] = []
    size = 0
    for op in ops:
        op_words = append_words(op, clock, None)
        if op_words is None:
            return None
        length = sum(map(len, op_words))
        if size + length > MOST_SIZE and heads:
            _add_script(scripts, heads, words, counts)
            heads, words, counts, size = [], [], [], 0
        heads.append(head_key(op.entity))
        words += op_words
        counts.append(len(op_words))
        size += length
    _add_script(scripts, heads, words, counts)
    return scripts


def _add_script(
    scripts: PackedScripts, heads: Sequence[Word], words: Sequence[Word], counts: Sequence[int]
) -> None:
    count = len(heads)
    sizes = struct.pack(f">{count}H", *counts)
    scripts[0].append(pack_one(("EVALSHA", APPENDS.sha, count, *heads, sizes, *words)))
    scripts[1].append(count)


def _apart(ops: Sequence[Any], traits: Traits) -> PackedScripts | None:
    """Pack a script per operation for a cluster, where it reaches one entity and no index."""
    clock, now = traits.at(), traits.minute()
    packed: list[bytes] = []
    for op in ops:
        touched = traits.touched.get(op.entity)
        if touched is None or touched.minute != now:
            return None  # the index is to be told too
        command = append_command(op, clock, touched.minute)
        if command is None:
            return None
        packed.append(pack_one(command))
    return packed, [1] * len(packed)


class FastReads(FastRequest):
    """Fetches of the last entries and of documents, and short listings: each sees one moment."""

    def __init__(self, ops: Sequence[Op], traits: Traits, asked: Sequence[AskedRead]) -> None:
        self._asked = asked
        self._blocks: list[tuple[int, int]] = []  # ends of each block's operations and replies
        if len(asked) == 1:
            packed, replies, *_ = asked[0]
            self._blocks.append((1, replies + 2))
            super().__init__(ops, traits, b"%b%b%b" % (BEGIN, packed, END), replies + 3)
            return
        parts: list[bytes] = []
        replies = 0
        most = BLOCK if traits.inline else 1  # a transaction holds keys of one slot
        for first in range(0, len(asked), most):
            block = asked[first : first + most]
            parts.append(BEGIN)
            for packed, count, *_ in block:
                parts.append(packed)
                replies += count
            parts.append(END)
            replies += 3
            self._blocks.append((first + len(block), replies - 1))
        super().__init__(ops, traits, b"".join(parts), replies)

    @classmethod
    def of(cls, ops: Sequence[Op], traits: Traits) -> FastReads | None:
        asked: list[AskedRead] = []
        for op in ops:
            if type(op) is Fetch:
                tail = plain_tail(op.log)
                if tail is None and op.log is not None:
                    return None
                packed, count = packed_read(op.entity, tail, op.documents, op.all_documents)
                asked.append(AskedRead(packed, count, tail))
            else:
                page = guessed_page(op, traits) if type(op) is List else None
                if page is None:
                    return None
                asked.append(AskedRead(page.packed, page.replies, None, page))
        return cls(ops, traits, asked)

    def take(self, replies: Sequence[Any], server: str) -> bool:
        outcomes = self.outcomes
        for end, exec in self._blocks:
            inside = replies[exec]
            if type(inside) is not list:  # the block was not run: a plan will report why
                outcomes += [None] * (end - len(outcomes))
                continue
            time, at = inside[0], 1
            now = self._traits.now(time)
            for number in range(len(outcomes), end):
                op, (_, count, tail, page) = self.ops[number], self._asked[number]
                block = inside[at : at + count]
                at += count
                if ReplyError in map(type, block):
                    outcomes.append(None)
                elif page is not None:
                    outcomes.append(page.outcome(time, block))
                else:
                    assert type(op) is Fetch
                    outcomes.append(plain_outcome(op, tail, block, now))
        return None not in outcomes


class AskedRead(NamedTuple):
    """The packed commands of one operation, with the number of their replies."""

    packed: bytes
    replies: int
    tail: int | None  # number of last entries to read
    page: GuessedPage | None = None


# --- listings ---------------------------------------------------------------------------


class GuessedPage:
    """The first page of what an owner has, asked for as if the index still said what it said last.

    One round trip instead of two, and nearly always right: most users have the same few unfinished
    workflows as a moment ago. Where it is wrong, `listing.py` does it the ordinary way.
    """

    def __init__(self, op: List, traits: Traits, asked: IndexRead) -> None:
        self._op = op
        self._traits = traits
        self._asked = asked
        self._guess = traits.members.guess(asked.command)
        self._page = IndexPage(op, traits)
        self._candidates = [self._page.candidate(asked.part, member) for member in self._guess]
        looks = [packed_read(c.entity, None, op.documents, False) for c in self._candidates]
        self.packed = b"".join([asked.packed, *[packed for packed, _ in looks]])
        self.replies = 1 + sum(count for _, count in looks)

    def outcome(self, time: Any, replies: Sequence[Any]) -> Listed | None:
        """Return the page; None if the index is not as it was expected to be."""
        members = replies[0]
        if members != self._guess or len(members) >= self._asked.size:
            self._traits.members.learn(self._asked.command, members)
            return None
        count = 2 if self._op.documents else 1
        for number, candidate in enumerate(self._candidates):
            at = 1 + number * count
            self._page.judge(candidate, (time, *replies[at : at + count]), self._asked.part)
        return self._page.whole()


class IndexRead(NamedTuple):
    """A part of an index, and the command that shows so much of it."""

    part: Range
    size: int
    command: Command
    packed: bytes


def guessed_page(op: List, traits: Traits) -> GuessedPage | None:
    """Guess the first page of an owner's entities of one kind, on one server; None for others."""
    if not op.owner or op.kind is None or op.due or op.within is not None or not traits.inline:
        return None
    if op.after is not None or op.reverse or op.recent or op.tally is not None:
        return None
    asked = _index_read(op.namespace, op.kind, op.owner, op.status or "", op.prefix, op.limit)
    return None if traits.members.is_long(asked.command) else GuessedPage(op, traits, asked)


@lru_cache(maxsize=256)
def _index_read(
    namespace: str, kind: str, owner: str, status: str, prefix: str, limit: int
) -> IndexRead:
    part, size = owned(namespace, kind, owner, status, prefix), min(limit + 1, LARGEST)
    command = asked_of(part, None, size, False)
    return IndexRead(part, size, command, pack_one(command))
