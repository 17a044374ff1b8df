"""All of a namespace removed at once, without the marks that a deletion leaves."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from stateward.engines.redis.keys import (
    keys_of,
    kind_index,
    kinds_index,
    owner_index,
    split_member,
)
from stateward.engines.redis.steps import PlanStep
from stateward.ops import Entity

TOGETHER = 200  # entities removed in one round


def purge(namespace: str) -> Generator[Sequence[PlanStep], Any, int]:
    """Entities first and the index last, so that a purge that was cut off can be run again."""
    kinds = kinds_index(namespace)
    (((members),),) = yield [PlanStep(kinds, (("ZRANGE", kinds, 0, -1),))]
    count = 0
    for member in members:
        kind, _ = split_member(member)
        count += yield from _purge_kind(namespace, kind)
    yield [_unlinked(kinds)]
    return count


def _purge_kind(namespace: str, kind: str) -> Generator[Sequence[PlanStep], Any, int]:
    ids, count = kind_index(namespace, kind), 0
    while True:
        ((members,),) = yield [PlanStep(ids, (("ZRANGE", ids, 0, TOGETHER - 1),))]
        if not members:
            break
        count += len(members)
        found = [keys_of(Entity(namespace, kind, member.decode())) for member in members]
        heads = yield [PlanStep(w.keys[0], (("HGET", w.keys[0], "owner"),)) for w in found]
        owners = {reply[0].decode() for reply in heads if reply[0]}
        yield [PlanStep(where.keys[0], (("UNLINK", *where.keys),)) for where in found]
        yield [
            PlanStep(where.sweep, tuple(("ZREM", k, where.tag) for k in _both(where.sweep)))
            for where in found
        ]
        indexes = [owner_index(namespace, owner) for owner in sorted(owners)]
        yield [_unlinked(index, f"{index}:status") for index in indexes]
        yield [PlanStep(ids, (("ZREM", ids, *members),))]
    yield [_unlinked(ids, f"{ids}:status", f"{ids}:due")]
    return count


def _both(index: str) -> tuple[str, str]:
    """An index, and what a cluster keeps beside it."""
    return index, f"{index}:added"


def _unlinked(*indexes: str) -> PlanStep:
    return PlanStep(indexes[0], (("UNLINK", *(key for index in indexes for key in _both(index))),))
