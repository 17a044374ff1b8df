"""The everyday operations, the short way: one request for all of a batch, packed at once.

Appends to entities that were written before, reads of plain parts, and short listings. What comes
back settles nearly all of it. Whatever it does not settle (a refusal, a repetition, a new entity,
an error) was not done, and goes the ordinary way, by its course. No I/O here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from hiredis import ReplyError

from stateward.engines.redis.batch import BLOCK
from stateward.engines.redis.client.wire import pack
from stateward.engines.redis.commit import MOST_AT_ONCE, append_command
from stateward.engines.redis.failures import NOT_RUN, code_of, refused
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.pages import GuessedPage, guessed_page
from stateward.engines.redis.plans import Traits, packed_read, plain_outcome, plain_tail
from stateward.engines.redis.scripts import APPEND
from stateward.ops import Append, Applied, Commit, Entity, Fetch, List, Op, Outcome

BEGIN = pack([("MULTI",), ("TIME",)])
END = pack([("EXEC",)])


def fast_way(ops: Sequence[Op], setting: Traits) -> FastWay | None:
    """The request for these operations, if there is nothing unusual about any of them."""
    if setting.replicas:  # which are waited for after each round
        return None
    if type(ops[0]) is Commit:
        return Appends.of(ops, setting)
    return Reads.of(ops, setting)


class Named(Protocol):
    """What was asked, by the name that errors tell."""

    @property
    def name(self) -> str: ...


class FastWay:
    """A request, and what became of each operation: None is not settled."""

    writes = False

    def __init__(self, ops: Sequence[Op], setting: Traits, packed: bytes, replies: int) -> None:
        self.ops = ops
        self.packed = packed
        self.replies = replies  # how many will come
        self.outcomes: list[Any] = []
        self._setting = setting

    @property
    def keys(self) -> list[str]:
        """One of each operation: they tell which server has it."""
        return [keys_of(op.entity).keys[0] for op in self.ops]  # type: ignore[union-attr]

    def land(self, replies: Sequence[Any], server: Named) -> bool:
        """Whether the replies have settled everything."""
        raise NotImplementedError

    def unsettled(self) -> list[Op]:
        """What must go the ordinary way."""
        pairs = zip(self.ops, self.outcomes, strict=True)
        return [op for op, outcome in pairs if outcome is None]

    def settle(self, rest: Sequence[Outcome]) -> list[Outcome]:
        """All outcomes, with those that came the ordinary way."""
        others = iter(rest)
        return [next(others) if outcome is None else outcome for outcome in self.outcomes]

    @property
    def wrote(self) -> bool:
        """Whether anything has been written."""
        return self.writes and any(outcome is not None for outcome in self.outcomes)


class Appends(FastWay):
    """Commits that only append."""

    writes = True

    @classmethod
    def of(cls, ops: Sequence[Op], setting: Traits) -> Appends | None:
        known, clock = setting.known, setting.at()
        parts: list[bytes] = []
        for op in ops:
            if type(op) is not Commit or op.entity not in known:
                return None
            packed = _packed_append(op, clock)
            if packed is None:
                return None
            parts.append(packed)
        return cls(ops, setting, b"".join(parts), len(ops))

    def land(self, replies: Sequence[Any], server: Named) -> bool:
        whole = True
        outcomes = self.outcomes
        for op, reply in zip(self.ops, replies, strict=True):
            if type(reply) is bytes:
                version, at, _ = reply.split(b" ")
                outcomes.append(Applied(int(version), op.op, float(at)))  # type: ignore[union-attr]
                continue
            whole = False
            outcomes.append(None)
            if type(reply) is not ReplyError:
                self._setting.known.discard(op.entity)  # type: ignore[union-attr]
            elif code_of(reply) not in NOT_RUN:
                failure = refused(reply, server.name)
                failure.applied = "unknown"  # of this one, and others may have been written
                raise failure from reply
        return whole


def _packed_append(op: Commit, clock: str) -> bytes | None:
    """The command for `append.lua`; None if the commit does, or asks, anything else."""
    if op.checks or clock or len(op.writes) != 1 or op.reading:
        return _pack_slowly(op, clock)
    append = op.writes[0]
    if type(append) is not Append or append.key is not None:
        return _pack_slowly(op, clock)
    bodies = append.bodies
    if not 0 < len(bodies) <= MOST_AT_ONCE:
        return None
    name = op.op.encode()
    owner = b"" if op.owner is None else b"=" + op.owner.encode()
    parts = [
        b"*%d\r\n%b$%d\r\n%b\r\n$%d\r\n%b\r\n$0\r\n\r\n"
        % (11 + len(bodies), _script_and_keys(op.entity), len(name), name, len(owner), owner)
    ]
    for body in bodies:
        text = body.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


def _pack_slowly(op: Commit, clock: str) -> bytes | None:
    """With checks or a key, whose words differ from call to call."""
    command = append_command(op, keys_of(op.entity), clock)
    return None if command is None else pack([command])


@lru_cache(maxsize=4096)
def _script_and_keys(entity: Entity) -> bytes:
    """What the command for an entity begins with, after the number of its words."""
    keys = keys_of(entity).keys
    packed = pack([("EVALSHA", APPEND.sha, 5, *keys[:3], *keys[5:7])])
    return packed[packed.index(b"\r\n") + 2 :]


class Reads(FastWay):
    """Fetches of the last entries and of documents, and short listings: each sees one moment."""

    def __init__(self, ops: Sequence[Op], setting: Traits, asked: Sequence[AskedRead]) -> None:
        parts: list[bytes] = []
        self._blocks: list[tuple[int, int]] = []  # each block's last operation, and its reply
        replies = 0
        most = BLOCK if setting.inline else 1  # a transaction holds keys of one slot
        for first in range(0, len(asked), most):
            block = asked[first : first + most]
            parts.append(BEGIN)
            for packed, count, _ in block:
                parts.append(packed)
                replies += count
            parts.append(END)
            replies += 3
            self._blocks.append((first + len(block), replies - 1))
        super().__init__(ops, setting, b"".join(parts), replies)
        self._asked = asked

    @classmethod
    def of(cls, ops: Sequence[Op], setting: Traits) -> Reads | None:
        asked: list[AskedRead] = []
        for op in ops:
            if type(op) is Fetch:
                tail = plain_tail(op.log)
                if tail is None and op.log is not None:
                    return None
                packed, count = packed_read(op.entity, tail, op.documents, op.all_documents)
                asked.append(AskedRead(packed, count))
            else:
                page = guessed_page(op, setting) if type(op) is List else None
                if page is None:
                    return None
                asked.append(AskedRead(page.packed, page.replies, page))
        return cls(ops, setting, asked)

    def land(self, replies: Sequence[Any], server: Named) -> bool:
        outcomes = self.outcomes
        for end, place in self._blocks:
            inside = replies[place]
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
        return plain_outcome(op, plain_tail(op.log), replies, self._setting.now(time))


class AskedRead(NamedTuple):
    """What is asked for one operation, and how many replies that gets."""

    packed: bytes
    replies: int
    page: GuessedPage | None = None
