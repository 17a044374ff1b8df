"""Removal of a whole namespace at once, without the marks that a deletion leaves."""

from __future__ import annotations

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.keys import (
    keys_of,
    kind_index,
    kinds_index,
    owner_index,
    owners_index,
    spread_keys,
    touched_index,
)
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.ranges import kinds_of
from stateward.ops import Entity

TOGETHER = 200  # entities removed in one round


def purge(namespace: str, traits: Traits) -> Plan[int]:
    """Purge entities first and the index last, so that an interrupted purge can be repeated."""
    count = 0
    for kind in (yield from kinds_of(namespace, traits)):
        count += yield from _purge_kind(namespace, kind, traits)
    yield [
        _unlinked_indexes(kinds_index(namespace, part), owners_index(namespace, part))
        for part in traits.parts()
    ]
    return count


def _purge_kind(namespace: str, kind: str, traits: Traits) -> Plan[int]:
    parts, count = traits.parts(), 0
    indexes = [kind_index(namespace, kind, part) for part in parts]
    each = TOGETHER // len(parts)
    while True:
        replies = yield [PipelineStep(ids, (("ZRANGE", ids, 0, each - 1),)) for ids in indexes]
        members = [(at, member) for at, reply in enumerate(replies) for member in reply[0]]
        if not members:
            break
        count += len(members)
        entities = [Entity(namespace, kind, member.decode()) for _, member in members]
        names = [(keys_of if traits.inline else spread_keys)(entity) for entity in entities]
        heads = yield [PipelineStep(k.head, (("HGET", k.head, "owner"),)) for k in names]
        owned = [(reply[0] or b"").decode() for reply in heads]
        yield [_unlinked(*keys.own) for keys in names]
        yield [
            PipelineStep(keys.sweep, tuple(("ZREM", k, keys.tag) for k in _both(keys.sweep)))
            for keys in names
        ]
        theirs = [owner_index(namespace, owner) for owner in sorted(set(owned)) if owner]
        if theirs:
            yield [_unlinked_indexes(index, f"{index}:status") for index in theirs]
        touched = {(owner, parts[at]) for owner, (at, _) in zip(owned, members, strict=True)}
        yield [
            _unlinked_indexes(touched_index(namespace, kind, *where))
            for where in {*touched, *(("", part) for part in parts)}
        ]
        yield [
            PipelineStep(ids, (("ZREM", ids, *reply[0]),))
            for ids, reply in zip(indexes, replies, strict=True)
            if reply[0]
        ]
    yield [
        _unlinked_indexes(ids, f"{ids}:status", f"{ids}:due", f"{ids}:touched") for ids in indexes
    ]
    return count


def _both(index: str) -> tuple[str, str]:
    """Return an index, and the keys that a cluster keeps beside it."""
    return index, f"{index}:added"


def _unlinked_indexes(*indexes: str) -> PipelineStep:
    return _unlinked(*[key for index in indexes for key in _both(index)])


def _unlinked(*keys: str) -> PipelineStep:
    """Unlink keys one by one, as a cluster that moves their slot takes no command with several.

    With one that never exists, both nodes of a slot that moves are rid of all of them.
    """
    return PipelineStep(keys[0], tuple(("UNLINK", key) for key in (*keys, absent(keys[0]))))
