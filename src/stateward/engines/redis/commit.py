"""A commit: its plan, its arguments for `commit.lua`, and the answer as an outcome."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from stateward.engine import MINUTE
from stateward.engines.redis.append import append_command, digest, hex_of, maybe
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command, Word
from stateward.engines.redis.index import entries_of, touches, write_steps
from stateward.engines.redis.keys import EntityKeys, keys_of, owner_index, touched_index
from stateward.engines.redis.outcomes import applied_of, other_format, seen_head, values_of
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import COMMIT
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    Commit,
    CommitOutcome,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Entry,
    Fence,
    Fenced,
    Held,
    KeyReused,
    LogAt,
    NotDroppedSince,
    NotYours,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Trim,
    Unheld,
    Write,
    check_shape,
)

_RANKS: dict[type, int] = {Fence: 0, Unheld: 1}


def commit(
    op: Commit,
    traits: Traits,
    indexed: int | None = None,
    indexing: int | None = None,
    entered: tuple[str, str] = ("", ""),
) -> Plan[CommitOutcome]:
    """Plan a commit: by `append.lua` where that may do, and otherwise by `commit.lua`.

    On a cluster `indexed` is the minute that the index has of the entity at least, 0 if that is not
    known, and `indexing` what it has after the first round; None: it does not matter. `entered` is
    since when the index has which entries, if they were written without being asked for.
    """
    writes = op.writes
    if len(writes) != 1 or (type(writes[0]) is Append and not writes[0].bodies):
        check_shape(op)
    keys = keys_of(op.entity)
    owner = traits.owner_of(op)
    if op.entity in traits.seen:
        short = append_command(op, traits.at(), indexed)
        if short is not None:
            reply = (yield (PipelineStep(keys.head, (short,), True),))[0][0]
            indexed = indexing
            if reply:
                return Applied(reply[1], op.op, float(reply[0]))
    traits.seen.keep(op.entity, owner or "")
    owners = likely_owners(op, owner or "") if traits.inline else entered
    tail, drops = commit_tail(op), type(writes[0]) is Drop
    while True:
        flags = traits.flags if indexed is None else f"{traits.flags}c{indexed}"
        command = commit_command(op, keys, owners, traits.at(), flags, tail)
        reply = (yield (PipelineStep(keys.head, (command,), True),))[0][0]
        before, indexed = indexed, indexing
        if type(reply) is list and reply[0] == b"O":
            owners = reply[1].decode(), reply[2].decode()
            traits.seen.keep(op.entity, owners[1])
        elif type(reply) is list and reply[0] == b"I":
            at, need, which, *named = (word.decode() for word in reply[1:])
            minute = int(touched_at(op, float(at)) // MINUTE)
            entries = entries_of(op.entity, which, minute, *named)
            yield write_steps(entries, ("!" if drops else "") + traits.at())
            owners = at, need
        elif type(reply) is list and reply[0] == b"T":
            if indexed == before:  # the commit took too long
                indexed = indexing = int(reply[1])
                yield write_steps(touches(op.entity, op.owner, indexed, ">"), traits.at())
        else:
            return commit_outcome(op, reply)


def touched_at(op: Commit, now: float) -> float:
    """Return `Head.updated` as it is after a commit at that time."""
    write = op.writes[0]
    return write.head.updated if type(write) is Restore else now


def commit_command(
    op: Commit, keys: EntityKeys, owners: tuple[str, str], clock: str, flags: str, tail: list[Word]
) -> Command:
    """The whole command. `tail` is from `commit_tail`, `owners` are those whose index is given.

    On a cluster these are when the script asked for entries of the index, and what it asked for.
    """
    owner = op.owner
    if "i" not in flags:
        names = (*keys.own, keys.none)
    else:
        namespace = op.entity.namespace
        a, b = (owner_index(namespace, name) for name in owners)
        names = (
            *(*keys.own, keys.kinds, keys.ids, keys.statuses, keys.due),
            *(a, f"{a}:status", b, f"{b}:status", keys.sweep, keys.touched),
            *(touched_index(namespace, op.entity.kind, name) for name in owners),
            keys.owners,
        )
    return (
        "EVALSHA",
        COMMIT.sha,
        len(names),
        *names,
        op.op,
        clock,
        flags,
        "" if owner is None else f"={owner}",
        "" if op.retain is None else repr(op.retain),
        keys.kind,
        op.entity.id,
        *owners,
        keys.tag,
        *tail,
    )


def commit_tail(op: Commit) -> list[Word]:
    """Return the words for what a commit reads, checks and writes."""
    words: list[Word] = [len(op.reading), *op.reading, len(op.checks)]
    for check in in_order(op.checks):
        _add_check(words, check)
    for write in op.writes:
        _add_write(words, write)
    return words


def in_order(checks: tuple[Check, ...]) -> list[Check]:
    """Return fences first, then the check of the lease's holder, then all others in order."""
    if len(checks) < 2:
        return list(checks)
    return sorted(checks, key=lambda check: _RANKS.get(type(check), 2))


def likely_owners(op: Commit, owner: str) -> tuple[str, str]:
    """Return the owners whose index this commit may change, as far as it names them."""
    return owner, next_owner(op) or ""


def next_owner(op: Commit) -> str | None:
    """Return the owner that the commit gives the entity to, if it does."""
    for write in op.writes:
        if type(write) is SetHead and write.owner is not None:
            return write.owner
        if type(write) is Restore:
            return write.head.owner
    return None


def commit_outcome(op: Commit, reply: Any) -> CommitOutcome:
    """The outcome that `commit.lua` has answered with."""
    if type(reply) is bytes:
        return applied_of(reply, op.op)
    kind = reply[0]
    if kind == b"A":
        return replace(applied_of(reply[1], op.op), values=values_of(reply[2]))
    if kind == b"N":
        return NotYours()
    if kind == b"V":
        raise other_format()
    *_, exists, flat, values = reply
    head, read = seen_head(flat, exists), values_of(values)
    if kind == b"D":
        return Duplicate(applied_of(reply[2], op.op), reply[1] == 1, head, read)
    if kind == b"K":
        return KeyReused(reply[1].decode(), int(reply[2]), head, read)
    if kind == b"C":
        return Conflict(in_order(op.checks)[reply[1] - 1], head, read)
    if kind == b"H":
        return Held(float(reply[1]), head, read)
    assert kind == b"F", f"an answer that is not known: {reply!r}"
    return Fenced(head, read)


def _add_check(words: list[Word], check: Check) -> None:
    match check:
        case LogAt(version=version, stamp=stamp):
            words += "v", version, maybe(stamp)
        case DocumentAt(name=name, version=version, stamp=stamp):
            words += "d", name, version, maybe(stamp)
        case Absent():
            words.append("a")
        case StatusIn(statuses=statuses):
            words += "s", len(statuses), *statuses
        case Fence(token=token, nonce=nonce):
            words += "f", token, nonce
        case CommitsAt(commits=commits):
            words += "c", commits
        case NotDroppedSince(at=at):
            words += "n", repr(at)
        case Unheld():
            words.append("u")


def _add_write(words: list[Word], write: Write) -> None:
    match write:
        case Append(bodies=bodies, key=key, note=note):
            words += "A", len(bodies), maybe(key), "" if key is None else digest(bodies)
            words += note or "", *bodies
        case Put(name=name, value=value):
            words += "P", name, value
        case Delete(name=name):
            words += "D", name
        case Trim(upto=upto):
            words += "T", upto
        case Replace(entries=entries):
            words += "R", len(entries)
            for seq, body in entries.items():
                words += seq, maybe(body)
        case Acquire(nonce=nonce, ttl=ttl, holder=holder):
            words += "Q", nonce, repr(ttl), holder
        case Renew(token=token, nonce=nonce, ttl=ttl):
            words += "N", token, nonce, repr(ttl)
        case Release(token=token, nonce=nonce):
            words += "L", "" if token is None else token, nonce
        case SetHead():
            words += (
                "H",
                maybe(write.status),
                maybe(write.label),
                maybe(write.owner),
                _number(write.due),
                _number(write.due_in),
                _number(write.retain),
            )
        case Drop():
            words.append("X")
        case Restore():
            _add_restore(words, write)


def _add_restore(words: list[Word], write: Restore) -> None:
    """Add the words of a restore in the order that `commit_restore.lua` states."""
    head, entries = write.head, write.entries
    words += "S", "1" if write.continued else "", head.owner, head.status, head.label
    words += _number(head.due), _number(head.retain), _number(head.expires)
    words += repr(head.created), repr(head.updated), head.version, head.stamp
    words += head.base, head.base_stamp, head.commits
    words += _number(head.dropped or None), head.token or ""
    words.append(len(write.documents))
    for name, value in write.documents.items():
        meta = f"{value.version} {value.updated!r} {value.log} {value.stamp}"
        words += name, value.json, meta
    words.append(len(entries))
    for entry, following in zip_longest(entries, entries[1:]):
        ends = following is None or following.stamp != entry.stamp
        words += entry.seq, entry.body, _mark(entry) if ends or entry.key is not None else ""
        words += entry.key or "", _remembered(entry)


def _mark(entry: Entry) -> str:
    size = len(entry.stamp.encode())
    if entry.note is not None:
        of_key = "-" if entry.key is None else len(entry.key.encode())
        return f"{entry.at!r} {size}:{of_key} {entry.stamp}{entry.key or ''}{entry.note}"
    if entry.key is None:
        return f"{entry.at!r} - {entry.stamp}"
    return f"{entry.at!r} {size} {entry.stamp}{entry.key}"


def _remembered(entry: Entry) -> str:
    """Return the value of an entry's key in `:keys`; "" if the key is no longer remembered."""
    if entry.key is None or entry.digest is None:
        return ""
    return f"{entry.seq} {entry.at!r} {hex_of(entry.digest)} {entry.stamp}"


def _number(number: float | None) -> str:
    return "" if number is None else repr(number)
