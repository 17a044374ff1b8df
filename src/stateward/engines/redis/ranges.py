"""What a listing reads: ranges of an index, and what their members stand for. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.index import IndexEntry
from stateward.engines.redis.keys import (
    head_key,
    kinds_index,
    owner_index,
    part_of,
    sortable,
    split_member,
)
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import UNLIST
from stateward.ops import Entity


class Range(NamedTuple):
    """Members of one index: all begin with `prefix`, which is cut off."""

    key: str
    prefix: bytes
    kind: str | None  # None: the member itself begins with its kind
    owner: str | None = None  # what being in this index says of an entity
    status: str | None = None
    added: str = ""  # what says which members were written of late, if it is not the index's own


Ranges = Sequence[Range]  # the same of every part of an index; one, where it is not in parts


class Candidate(NamedTuple):
    """A member of an index, and what it stands for."""

    member: bytes
    entity: Entity
    due: str | None = None


def bounds_of(prefix: bytes, after: bytes | None, reverse: bool) -> tuple[bytes, bytes]:
    """Where members with this prefix begin and end, as ZRANGEBYLEX takes it.

    What follows a prefix is text, which never holds FF: nothing with the prefix is beyond that.
    """
    low = b"[" + prefix if prefix else b"-"
    high = b"(" + prefix + b"\xff" if prefix else b"+"
    if after is not None and reverse and (not prefix or after < prefix + b"\xff"):
        high = b"(" + after
    elif after is not None and not reverse and after >= prefix:
        low = b"(" + after
    return low, high


def kinds_of(namespace: str, traits: Traits) -> Plan[list[str]]:
    """The kinds that a namespace has had, in order."""
    keys = [kinds_index(namespace, part) for part in traits.parts()]
    replies = yield [PipelineStep(key, (("ZRANGE", key, 0, -1),)) for key in keys]
    members = sorted({member for reply in replies for member in reply[0]})
    return [split_member(member)[0] for member in members]


def owned(namespace: str, kind: str, owner: str, status: str, prefix: str) -> Range:
    """Where to find what an owner has of one kind; "" is any status."""
    index = owner_index(namespace, owner)
    start = sortable(kind)
    if not status:
        return Range(index, start + prefix.encode(), kind, owner)
    start += sortable(status) + prefix.encode()
    return Range(f"{index}:status", start, kind, owner, status)


def asked_of(part: Range, after: bytes | None, size: int, reverse: bool) -> Command:
    """The command for so many members of a part of an index."""
    low, high = bounds_of(part.prefix, after, reverse)
    if reverse:
        return ("ZREVRANGEBYLEX", part.key, high, low, "LIMIT", 0, size)
    return ("ZRANGEBYLEX", part.key, low, high, "LIMIT", 0, size)


def home_of(parts: Ranges, entity: Entity) -> Range:
    """The part of an index that an entity is in."""
    return parts[0] if len(parts) == 1 else parts[part_of(entity)]


def removal_of(part: Range, member: bytes) -> IndexEntry:
    """What is to be removed from there."""
    return IndexEntry(part.key, member, "", (part.added, member) if part.added else None)


def member_of(part: Range, kind: str, id: str) -> bytes | None:
    """The member from which to go on, if this range has come that far."""
    if part.kind is None:
        return sortable(kind) + id.encode()
    if part.kind != kind:
        return None
    start = b"" if part.owner is None else sortable(kind)
    return start + (sortable(part.status) if part.status else b"") + id.encode()


def belongs(part: Range, candidate: Candidate, fields: dict[bytes, bytes]) -> bool:
    """Whether the entity is what this index says of it."""
    due = fields.get(b"due_at") or fields.get(b"due")
    return (
        b"created" in fields
        and (part.owner is None or fields.get(b"owner", b"") == part.owner.encode())
        and (part.status is None or fields.get(b"status", b"") == part.status.encode())
        and (candidate.due is None or candidate.due.encode() == due)
    )


def unlist_step(part: Range, candidate: Candidate) -> PipelineStep:
    head = head_key(candidate.entity)
    command: Command = (
        "EVALSHA",
        UNLIST.sha,
        2,
        head,
        part.key,
        candidate.member,
        "" if part.owner is None else f"={part.owner}",
        "" if part.status is None else f"={part.status}",
        "" if candidate.due is None else f"={candidate.due}",
    )
    return PipelineStep(head, (command,))
