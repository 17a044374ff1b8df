"""The fast path: the everyday operations of a batch as one request, packed at once. No I/O here.

Appends to entities that were written before, reads of plain parts, and short listings. What comes
back settles nearly all of it. Whatever it does not settle (a refusal, a repetition, a new entity,
an error) was not done, and goes the ordinary way, by its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engine import MINUTE
from stateward.engines.redis.batch import Batch, plan_of
from stateward.engines.redis.client.pipeline import BLOCK
from stateward.engines.redis.client.wire import Command, pack
from stateward.engines.redis.commit import MOST_AT_ONCE, append_command, append_keys
from stateward.engines.redis.failures import NOT_RUN, code_of, refused
from stateward.engines.redis.fetch import packed_read, plain_outcome, plain_tail
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.listing import LARGEST, IndexPage, Range, asked_of, owned
from stateward.engines.redis.plans import Touched, Traits
from stateward.engines.redis.scripts import APPEND
from stateward.ops import Append, Applied, Commit, Entity, Fetch, List, Listed, Op, Outcome

BEGIN = pack([("MULTI",), ("TIME",)])
END = pack([("EXEC",)])


def fast_request(ops: Sequence[Op], traits: Traits) -> FastRequest | None:
    """The request for these operations, if there is nothing unusual about any of them."""
    if traits.server.wait_replicas:  # which are waited for after each round
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
        self.replies = replies  # how many will come
        self.outcomes: list[Any] = []
        self._traits = traits

    def message(self) -> FastRequest:
        """What to send, and how many replies that gets."""
        return self

    @property
    def keys(self) -> list[str]:
        """One of each operation: they tell which server has it."""
        return [keys_of(op.entity).head for op in self.ops]  # type: ignore[union-attr]

    def take(self, replies: Sequence[Any], server: str) -> bool:
        """Whether the replies have settled everything."""
        raise NotImplementedError

    def rest(self) -> Batch:
        """What must go the ordinary way."""
        outcomes = self.outcomes or [None] * len(self.ops)  # none: it was never sent
        pairs = zip(self.ops, outcomes, strict=True)
        plans = [plan_of(op, self._traits) for op, outcome in pairs if outcome is None]
        return Batch(plans, self._traits)

    def settle(self, rest: list[Outcome]) -> list[Outcome]:
        """All outcomes, with those that came the ordinary way."""
        others = iter(rest)
        return [next(others) if outcome is None else outcome for outcome in self.outcomes] or rest

    @property
    def wrote(self) -> bool:
        """Whether anything has been written."""
        return self.writes and any(outcome is not None for outcome in self.outcomes)


class FastAppends(FastRequest):
    """Commits that only append."""

    writes = True

    @classmethod
    def of(cls, ops: Sequence[Op], traits: Traits) -> FastAppends | None:
        seen, clock = traits.seen, traits.at()
        inline, now = traits.inline, traits.minute()
        parts: list[bytes] = []
        for op in ops:
            if type(op) is not Commit or op.entity not in seen:
                return None
            owner, told = op.owner, traits.touched.get(op.entity)
            turns = told is None or told.minute != now
            if inline:
                owner = seen[op.entity] if owner is None else owner
            elif turns:
                return None  # the index is to be told too
            minute = None if inline or told is None else told.minute
            packed = _packed_append(op, clock, owner, turns, minute)
            if packed is None:
                return None
            parts.append(packed)
        return cls(ops, traits, b"".join(parts), len(ops))

    def take(self, replies: Sequence[Any], server: str) -> bool:
        whole = True
        outcomes = self.outcomes
        for op, reply in zip(self.ops, replies, strict=True):
            if type(reply) is bytes:
                version, at, _ = reply.split(b" ")
                outcomes.append(Applied(int(version), op.op, float(at)))  # type: ignore[union-attr]
                self._touched(op, float(at))
                continue
            whole = False
            outcomes.append(None)
            if type(reply) is list:
                self._traits.seen.keep(op.entity, reply[0].decode())  # type: ignore[union-attr]
            elif type(reply) is not ReplyError:
                self._traits.seen.pop(op.entity, None)  # type: ignore[union-attr]
            elif code_of(reply) not in NOT_RUN:
                failure = refused(reply, server)
                failure.applied = "unknown"  # of this one, and others may have been written
                raise failure from reply
        return whole

    def _touched(self, op: Any, at: float) -> None:
        """Remember the minute; on a cluster a wrong guess: then the index is told next time."""
        touched, minute = self._traits.touched, int(at // MINUTE)
        told = touched.get(op.entity)
        if told is None or told.minute != minute:
            if self._traits.inline:
                touched.keep(op.entity, Touched("", minute))
            else:
                touched.pop(op.entity, None)


def _packed_append(
    op: Commit, clock: str, owner: str | None, turns: bool, told: int | None
) -> bytes | None:
    """The command for `append.lua`; None if the commit does, or asks, anything else."""
    if op.checks or clock or len(op.writes) != 1 or op.reading or told is not None:
        return _pack_slowly(op, clock, owner, turns, told)
    append = op.writes[0]
    if type(append) is not Append or append.key is not None or append.note is not None:
        return _pack_slowly(op, clock, owner, turns, told)
    bodies = append.bodies
    if not 0 < len(bodies) <= MOST_AT_ONCE:
        return None
    name = op.op.encode()
    claim = b"" if owner is None else b"=" + owner.encode()
    words, begin = _script_and_keys(op.entity, owner if turns else None)
    parts = [
        b"*%d\r\n%b$%d\r\n%b\r\n$%d\r\n%b\r\n$0\r\n\r\n"
        % (words + 3 + len(bodies), begin, len(name), name, len(claim), claim)
    ]
    for body in bodies:
        text = body.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


def _pack_slowly(
    op: Commit, clock: str, owner: str | None, turns: bool, told: int | None
) -> bytes | None:
    """With checks, a key or a note, whose words differ from call to call, and on a cluster."""
    command = append_command(op, clock, owner, turns, told)
    return None if command is None else pack([command])


@lru_cache(maxsize=4096)
def _script_and_keys(entity: Entity, owner: str | None) -> tuple[int, bytes]:
    """What the command for an entity begins with, after the number of its words, and how many."""
    keys = append_keys(entity, owner, keyed=False)
    packed = pack([("EVALSHA", APPEND.sha, len(keys), *keys)])
    return 3 + len(keys), packed[packed.index(b"\r\n") + 2 :]


class FastReads(FastRequest):
    """Fetches of the last entries and of documents, and short listings: each sees one moment."""

    def __init__(self, ops: Sequence[Op], traits: Traits, asked: Sequence[AskedRead]) -> None:
        parts: list[bytes] = []
        self._blocks: list[tuple[int, int]] = []  # where each one's operations end, and its reply
        replies = 0
        most = BLOCK if traits.inline else 1  # a transaction holds keys of one slot
        for first in range(0, len(asked), most):
            block = asked[first : first + most]
            parts.append(BEGIN)
            for packed, count, _ in block:
                parts.append(packed)
                replies += count
            parts.append(END)
            replies += 3
            self._blocks.append((first + len(block), replies - 1))
        super().__init__(ops, traits, b"".join(parts), replies)
        self._asked = asked

    @classmethod
    def of(cls, ops: Sequence[Op], traits: Traits) -> FastReads | None:
        asked: list[AskedRead] = []
        for op in ops:
            if type(op) is Fetch:
                tail = plain_tail(op.log)
                if tail is None and op.log is not None:
                    return None
                packed, count = packed_read(op.entity, tail, op.documents, op.all_documents)
                asked.append(AskedRead(packed, count))
            else:
                page = guessed_page(op, traits) if type(op) is List else None
                if page is None:
                    return None
                asked.append(AskedRead(page.packed, page.replies, page))
        return cls(ops, traits, asked)

    def take(self, replies: Sequence[Any], server: str) -> bool:
        outcomes = self.outcomes
        for end, exec in self._blocks:
            inside = replies[exec]
            if type(inside) is not list:  # it was not run: the ordinary way will tell why
                outcomes += [None] * (end - len(outcomes))
                continue
            at = 1
            while len(outcomes) < end:
                number = len(outcomes)
                count = self._asked[number].replies
                outcomes.append(self._outcome(number, inside[0], inside[at : at + count]))
                at += count
        return None not in outcomes

    def _outcome(self, number: int, time: Any, replies: Sequence[Any]) -> Outcome | None:
        for reply in replies:
            if type(reply) is ReplyError:
                return None
        op, page = self.ops[number], self._asked[number].page
        if page is not None:
            return page.outcome(time, replies)
        assert type(op) is Fetch
        return plain_outcome(op, plain_tail(op.log), replies, self._traits.now(time))


class AskedRead(NamedTuple):
    """What is asked for one operation, and how many replies that gets."""

    packed: bytes
    replies: int
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
        """The page; None if it is not as it was expected to be."""
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
    """For the first page of what an owner has of one kind, on one server; None for any other."""
    if not op.owner or op.kind is None or op.due or op.within is not None or not traits.inline:
        return None
    if op.after is not None or op.reverse or op.recent or op.tally is not None:
        return None
    asked = _index_read(op.namespace, op.kind, op.owner, op.status or "", op.prefix, op.limit)
    return None if traits.members.is_long(asked.command) else GuessedPage(op, traits, asked)


@lru_cache(maxsize=4096)
def _index_read(
    namespace: str, kind: str, owner: str, status: str, prefix: str, limit: int
) -> IndexRead:
    part, size = owned(namespace, kind, owner, status, prefix), min(limit + 1, LARGEST)
    command = asked_of(part, None, size, False)
    return IndexRead(part, size, command, pack([command]))
