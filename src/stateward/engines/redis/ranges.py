"""Ranges of an index that a listing reads, and the meaning of members. No I/O here."""

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
    owner: str | None = None  # owner of all entities in this index
    status: str | None = None
    added: str = ""  # key with the recently written members, if not the index's own


Ranges = Sequence[Range]  # one range for each part of an index


class Candidate(NamedTuple):
    """A member of an index, and what it stands for."""

    member: bytes
    entity: Entity
    due: str | None = None


def bounds_of(prefix: bytes, after: bytes | None, reverse: bool) -> tuple[bytes, bytes]:
    """Return the begin and the end of members with this prefix, as ZRANGEBYLEX takes them.

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
    """Return the index part with an owner's entities of one kind; "" is any status."""
    index = owner_index(namespace, owner)
    start = sortable(kind)
    if not status:
        return Range(index, start + prefix.encode(), kind, owner)
    start += sortable(status) + prefix.encode()
    return Range(f"{index}:status", start, kind, owner, status)


def asked_of(part: Range, after: bytes | None, size: int, reverse: bool) -> Command:
    """Return the command for this many members of a part of an index."""
    low, high = bounds_of(part.prefix, after, reverse)
    if reverse:
        return ("ZREVRANGEBYLEX", part.key, high, low, "LIMIT", 0, size)
    return ("ZRANGEBYLEX", part.key, low, high, "LIMIT", 0, size)


def home_of(parts: Ranges, entity: Entity) -> Range:
    """The part of an index that an entity is in."""
    return parts[0] if len(parts) == 1 else parts[part_of(entity)]


def removal_of(part: Range, member: bytes) -> IndexEntry:
    """Return the entry to remove from this part of an index."""
    return IndexEntry(part.key, member, "", (part.added, member) if part.added else None)


def member_of(part: Range, kind: str, id: str) -> bytes | None:
    """Return the member from which to continue, if the listing has reached this range."""
    if part.kind is None:
        return sortable(kind) + id.encode()
    if part.kind != kind:
        return None
    start = b"" if part.owner is None else sortable(kind)
    return start + (sortable(part.status) if part.status else b"") + id.encode()


def belongs(part: Range, candidate: Candidate, fields: dict[bytes, bytes]) -> bool:
    """Return True if the entity is as this index states."""
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
