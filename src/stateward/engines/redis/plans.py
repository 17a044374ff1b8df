"""Each operation as a course: what to ask, and what to make of the answers. No I/O here.

A course is a generator. It yields steps, gets their replies, and returns the outcome when it has
one; most take one round. Engines of both colours fly the courses of a batch side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from stateward.engines.redis.client.wire import pack
from stateward.engines.redis.commit import (
    Command,
    append_command,
    commit_command,
    commit_outcome,
    commit_tail,
    likely_owners,
)
from stateward.engines.redis.index import entries_of as index_entries
from stateward.engines.redis.index import write_steps
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.outcomes import (
    all_values,
    applied_of,
    entries_of,
    head_for_backup,
    head_of,
    named_values,
    time_of,
)
from stateward.engines.redis.scripts import FETCH
from stateward.engines.redis.steps import PlanStep
from stateward.errors import SchemaError
from stateward.ops import (
    Append,
    Commit,
    CommitOutcome,
    Entity,
    Fetch,
    Fetched,
    Head,
    Log,
    NotYours,
    Outcome,
    Value,
    check_shape,
)

MOST = 1 << 50  # more entries than any log has; fits every number on the way


Course = Generator[Sequence[PlanStep], Sequence[list[Any]], Outcome]
Clock = Callable[[], float]


class Seen:
    """The last entities of many. Only a guess: what is wrong with it costs a second round."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._entities: dict[Entity, None] = {}

    def __contains__(self, entity: Entity) -> bool:
        return entity in self._entities

    def discard(self, entity: Entity) -> None:
        self._entities.pop(entity, None)

    def add(self, entity: Entity) -> None:
        self._entities[entity] = None
        if len(self._entities) > self._most:
            try:
                self._entities.pop(next(iter(self._entities)), None)
            except RuntimeError:  # another thread was faster
                pass


class SeenMembers:
    """What short parts of an index said last: a guess that saves a listing its second round."""

    def __init__(self, most: int = 5_000, longest: int = 8) -> None:
        self._most = most
        self._longest = longest
        self._members: dict[Command, list[bytes] | None] = {}  # None: too many to guess them

    def guess(self, asked: Command) -> list[bytes]:
        return self._members.get(asked) or []

    def is_long(self, asked: Command) -> bool:
        """Whether a guess would be wrong."""
        return self._members.get(asked, ()) is None

    def learn(self, asked: Command, found: list[bytes]) -> None:
        if not found:
            self._members.pop(asked, None)
            return
        members = None if len(found) > self._longest else found
        self._members[asked] = members
        if len(self._members) > self._most:
            try:
                self._members.pop(next(iter(self._members)), None)
            except RuntimeError:  # another thread was faster
                pass


class Traits(NamedTuple):
    """What courses need to know about the server."""

    inline: bool = True  # scripts may reach the index: there is only one server
    net: bool = True  # the server may be told to remove what nobody swept
    replicas: int = 0  # how many must have a write before it is acknowledged
    clock: Clock | None = None  # for tests: tells the time instead of the server
    known: Seen = Seen()  # entities that were written before, so that they probably exist
    listed: SeenMembers = SeenMembers()  # what listings probably find

    @property
    def flags(self) -> str:
        net, replicas = "n" if self.net else "", "r" if self.replicas else ""
        return f"{'i' if self.inline else ''}{net}{replicas}"

    def at(self) -> str:
        """The time for a script; nothing means that the server's own counts."""
        return "" if self.clock is None else f"{self.clock():.6f}"

    def now(self, reply: Any) -> float:
        """The time that a server's answer to TIME stands for."""
        return time_of(reply) if self.clock is None else self.clock()


# --- commit -----------------------------------------------------------------------------


def commit(op: Commit, setting: Traits) -> Generator[Sequence[PlanStep], Any, CommitOutcome]:
    writes = op.writes
    if len(writes) != 1 or (type(writes[0]) is Append and not writes[0].bodies):
        check_shape(op)
    where = keys_of(op.entity)
    if op.entity in setting.known:
        short = append_command(op, where, setting.at())
        if short is not None:
            reply = (yield (PlanStep(where.keys[0], (short,), True),))[0][0]
            if reply != 0:
                return applied_of(reply, op.op)
    setting.known.add(op.entity)
    owners = likely_owners(op) if setting.inline else ("", "")
    tail = commit_tail(op)
    while True:
        command = commit_command(op, where, owners, setting.at(), setting.flags, tail)
        reply = (yield (PlanStep(where.keys[0], (command,), True),))[0][0]
        if type(reply) is list and reply[0] == b"O":
            owners = reply[1].decode(), reply[2].decode()
        elif type(reply) is list and reply[0] == b"I":
            at, need, *named = (word.decode() for word in reply[1:])
            entries = index_entries(op.entity, where, *named)
            yield write_steps(entries, setting.at())
            owners = at, need
        else:
            return commit_outcome(op, reply)


# --- fetch ------------------------------------------------------------------------------


def fetch(op: Fetch, setting: Traits) -> Generator[Sequence[PlanStep], Any, Fetched | NotYours]:
    where = keys_of(op.entity)
    log = op.log
    tail = plain_tail(log)
    head_key = where.keys[0]
    commands = plain_commands(op.entity, tail, op.documents, op.all_documents)
    if log is None or tail is not None:
        replies = (yield (PlanStep(head_key, commands, False, True, True),))[0]
        outcome = plain_outcome(op, tail, replies[1:], setting.now(replies[0]))
        if outcome is not None:
            return outcome
    assert log is not None
    commands[: 2 if tail else 1] = [_fetch_command(log, where.keys, setting.at())]
    replies = (yield (PlanStep(head_key, commands, False, True, True),))[0]
    head, exists = head_of(replies[1][0], setting.now(replies[0]))
    if not exists:
        return Fetched(head, reset=log.stamp is not None)
    if op.owner is not None and op.owner != head.owner:
        return NotYours()
    if replies[1][1] == 2:
        raise lost_entries(op.entity.kind, op.entity.id)
    return _with_script_log(head, log, replies[1], *_documents(op, replies))


def plain_commands(
    entity: Entity, tail: int | None, documents: tuple[str, ...], everything: bool
) -> list[Command]:
    """What shows the head, the last entries (None, 0: none of them) and documents."""
    head_key, log_key, _, docs_key = keys_of(entity).keys[:4]
    commands: list[Command] = [("HGETALL", head_key)]
    if tail:
        commands.append(("LRANGE", log_key, -tail, -1))
    if everything:
        commands.append(("HGETALL", docs_key))
    elif documents:
        commands.append(("HMGET", docs_key, *fields_of(documents)))
    return commands


@lru_cache(maxsize=4096)
def packed_read(
    entity: Entity, tail: int | None, documents: tuple[str, ...], everything: bool
) -> tuple[bytes, int]:
    """The same as a part of a request, and how many replies it gets."""
    commands = plain_commands(entity, tail, documents, everything)
    return pack(commands), len(commands)


def plain_outcome(
    op: Fetch, tail: int | None, replies: Sequence[Any], now: float
) -> Fetched | NotYours | None:
    """What the replies to plain commands say; None if entries were removed: then a script looks."""
    head, exists = head_of(replies[0], now)
    log = op.log
    if not exists:
        return Fetched(head, reset=log is not None and log.stamp is not None)
    if op.owner is not None and op.owner != head.owner:
        return NotYours()
    documents, unchanged = _documents(op, replies)
    if log is None:
        return Fetched(head, documents=documents, unchanged=unchanged)
    stored = head.version - head.base
    if tail and head.live != stored:  # look for older ones
        return None
    bodies: list[bytes] = replies[1] if tail else []
    count = min(tail or 0, stored)
    if len(bodies) != count:
        raise lost_entries(op.entity.kind, op.entity.id)
    return Fetched(
        head,
        b"\n".join(bodies).decode(),
        count,
        head.version - count + 1 if count else 0,
        documents=documents,
        unchanged=unchanged,
        truncated=head.base > 0,
    )


def plain_tail(log: Log | None) -> int | None:
    """How many entries from the end, if that is all that is asked."""
    if log is None or log.last is None or log.after or log.details or log.whole:
        return None
    if log.upto is not None or log.stamp is not None:
        return None
    return min(log.last, MOST)


def _fetch_command(log: Log, keys: Sequence[str], clock: str) -> Command:
    return (
        "EVALSHA",
        FETCH.sha,
        5,
        *keys[:3],
        *keys[7:9],
        min(log.after, MOST),
        "" if log.upto is None else min(log.upto, MOST),
        "" if log.first is None else min(log.first, MOST),
        "" if log.last is None else min(log.last, MOST),
        "" if log.stamp is None else f"={log.stamp}",
        "2" if log.whole else "1" if log.details else "",
        clock,
    )


def fields_of(names: Sequence[str]) -> list[str]:
    """The fields of documents: their values and their metas."""
    return [field for name in names for field in (f"={name}", f"@{name}")]


def _documents(op: Fetch, replies: Sequence[Any]) -> tuple[dict[str, Value], tuple[str, ...]]:
    if op.all_documents:
        stored = all_values(replies[-1])
    elif op.documents:
        stored = named_values(op.documents, replies[-1])
    else:
        return {}, ()
    if not op.known:
        return stored, ()
    known = op.known
    unchanged = tuple(n for n, v in stored.items() if known.get(n) == (v.version, v.stamp))
    return {n: v for n, v in stored.items() if n not in unchanged}, unchanged


def _with_script_log(
    head: Head, log: Log, reply: Any, documents: dict[str, Value], unchanged: tuple[str, ...]
) -> Fetched:
    flat, reset, numbers, bodies, marks, *digests = reply
    if reset:
        return Fetched(head, reset=True)
    by_entry = log.details or log.whole
    return Fetched(
        head_for_backup(head, flat) if log.whole else head,
        "" if by_entry else b"\n".join(bodies).decode(),
        len(numbers),
        numbers[0] if numbers else 0,
        entries_of(numbers, bodies, marks, *digests) if by_entry else (),
        documents,
        unchanged,
        truncated=log.after < head.base,
    )


def lost_entries(kind: str, id: str) -> SchemaError:
    return SchemaError(
        f"the {kind} {id!r} has lost entries that its head still counts: the server has evicted "
        "keys. Set its maxmemory-policy to noeviction, and restore from a backup"
    )
