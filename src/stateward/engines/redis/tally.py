"""Counts of entities of each kind, or of each owner."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.index import IndexEntry, correct_steps
from stateward.engines.redis.keys import kind_index, owners_index, touched_index
from stateward.engines.redis.listing import list_entities
from stateward.engines.redis.merge import LARGEST
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.ranges import kinds_of
from stateward.ops import List, Listed


def tally(op: List, traits: Traits) -> Plan[Listed]:
    """Count by the sizes of indexes; on a cluster, whose indexes may have too much, by heads."""
    if op.tally == "owner":
        return (yield from _by_owner(op, traits))
    counts = yield from _by_kind(op, op.owner, traits)
    return Listed(tally={kind: count for kind, count in counts.items() if count})


def _by_owner(op: List, traits: Traits) -> Plan[Listed]:
    indexes = [owners_index(op.namespace, part) for part in traits.parts()]
    after, counts = op.after, dict[str, int]()
    while True:
        low = "-" if after is None else b"(" + after.encode()
        asked: list[Command] = [
            ("ZRANGEBYLEX", index, low, "+", "LIMIT", 0, op.limit + 1) for index in indexes
        ]
        replies: Any = yield [PipelineStep(str(each[1]), (each,)) for each in asked]
        # An owner is in every part that has anything of theirs.
        members = sorted({member for reply in replies for member in reply[0]})
        owners = [member.decode() for member in members[: op.limit + 1]]
        for owner in owners:
            after = owner
            if op.owner not in (None, owner):
                continue
            of_kinds = yield from _by_kind(op, owner, traits)
            if sum(of_kinds.values()) == 0 and op.kind is None:
                wrong = [IndexEntry(index, owner.encode(), "") for index in indexes]
                yield correct_steps(wrong, traits.at())
            elif count := sum(of_kinds.values()):
                if len(counts) == op.limit:
                    return Listed(next=list(counts)[-1], tally=counts)
                counts[owner] = count
        if len(owners) <= op.limit:
            return Listed(tally=counts)


def _by_kind(op: List, owner: str | None, traits: Traits) -> Plan[dict[str, int]]:
    if not traits.inline:
        return (yield from _walked(op, owner, traits))
    kinds = [op.kind] if op.kind is not None else (yield from kinds_of(op.namespace, traits))
    keys = [
        kind_index(op.namespace, kind)
        if owner is None
        else touched_index(op.namespace, kind, owner)
        for kind in kinds
    ]
    if not keys:
        return {}
    replies: Any = yield [PipelineStep(key, (("ZCARD", key),)) for key in keys]
    return {kind: reply[0] for kind, reply in zip(kinds, replies, strict=True)}


def _walked(op: List, owner: str | None, traits: Traits) -> Plan[dict[str, int]]:
    """Count by reading every head."""
    counts: dict[str, int] = {}
    page = List(op.namespace, op.kind, owner, expired=True, limit=LARGEST)
    while True:
        listed: Listed = yield from list_entities(page, traits)
        for item in listed.entities:
            counts[item.entity.kind] = counts.get(item.entity.kind, 0) + 1
        if listed.next is None:
            return dict(sorted(counts.items()))
        page = replace(page, after=listed.next)
