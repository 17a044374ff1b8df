"""All of a namespace removed at once, without the marks that a deletion leaves."""

from __future__ import annotations

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.keys import (
    format_mark,
    keys_of,
    kind_index,
    kinds_index,
    owner_index,
    owners_index,
    split_member,
    touched_index,
)
from stateward.engines.redis.plans import Plan
from stateward.ops import Entity

TOGETHER = 200  # entities removed in one round


def purge(namespace: str) -> Plan[int]:
    """Entities first and the index last, so that a purge that was cut off can be run again."""
    kinds = kinds_index(namespace)
    (((members),),) = yield [PipelineStep(kinds, (("ZRANGE", kinds, 0, -1),))]
    count = 0
    for member in members:
        kind, _ = split_member(member)
        count += yield from _purge_kind(namespace, kind)
    yield [_unlinked_indexes(kinds, owners_index(namespace)), _unlinked(format_mark(namespace))]
    return count


def _purge_kind(namespace: str, kind: str) -> Plan[int]:
    ids, count = kind_index(namespace, kind), 0
    while True:
        ((members,),) = yield [PipelineStep(ids, (("ZRANGE", ids, 0, TOGETHER - 1),))]
        if not members:
            break
        count += len(members)
        found = [keys_of(Entity(namespace, kind, member.decode())) for member in members]
        heads = yield [PipelineStep(k.head, (("HGET", k.head, "owner"),)) for k in found]
        owners = {reply[0].decode() for reply in heads if reply[0]}
        yield [_unlinked(*keys.own) for keys in found]
        yield [
            PipelineStep(keys.sweep, tuple(("ZREM", k, keys.tag) for k in _both(keys.sweep)))
            for keys in found
        ]
        indexes = [owner_index(namespace, owner) for owner in sorted(owners)]
        if indexes:
            yield [_unlinked_indexes(index, f"{index}:status") for index in indexes]
        yield [_unlinked_indexes(touched_index(namespace, kind, owner)) for owner in ("", *owners)]
        yield [PipelineStep(ids, (("ZREM", ids, *members),))]
    yield [_unlinked_indexes(ids, f"{ids}:status", f"{ids}:due", f"{ids}:touched")]
    return count


def _both(index: str) -> tuple[str, str]:
    """An index, and what a cluster keeps beside it."""
    return index, f"{index}:added"


def _unlinked_indexes(*indexes: str) -> PipelineStep:
    return _unlinked(*[key for index in indexes for key in _both(index)])


def _unlinked(*keys: str) -> PipelineStep:
    """One by one: a cluster that moves the slot takes no command with several.

    With one that never exists, both nodes of a slot that moves are rid of all of them.
    """
    return PipelineStep(keys[0], tuple(("UNLINK", key) for key in (*keys, absent(keys[0]))))
