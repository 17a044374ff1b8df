"""The index of a cluster in the form that one server has, moved into its parts.

Releases until 0.2 wrote it so, and so does whoever copies the keys of one server to a cluster.
Whoever lists a namespace moves all of it first: what was moved stays moved if that is cut off, and
two who do it at once only do something twice. `stateward migrate` does it beforehand. An entity is
entered as its head says, then what stood for it in the old place is removed: so it is always in one
of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.index import IndexEntry, entries_of, write_steps
from stateward.engines.redis.keys import (
    format_mark,
    keys_of,
    kind_index,
    kinds_index,
    owners_index,
    split_member,
    touched_index,
)
from stateward.engines.redis.outcomes import TOUCH, touch_of
from stateward.engines.redis.plans import Plan, Traits, carried_out
from stateward.errors import SchemaError
from stateward.ops import Entity, List, Listed

TOGETHER = 500  # entities moved in one round


def reads_parts(op: List) -> bool:
    """Whether a listing reads the parts of the index. What an owner has is one key, as ever."""
    return op.recent or not op.owner or op.tally == "owner"


def spread_listing(
    op: List, listing: Callable[[List, Traits], Plan[Listed]], traits: Traits
) -> Plan[Listed]:
    """A listing, after everything of the old form was moved.

    Whether there is any is asked before the first listing of a namespace, and later beside it:
    replicas of an older release may still be running.
    """
    listed: Listed | None = None
    if op.namespace in traits.filled:
        listed, replies = yield from carried_out(listing(op, traits), _looks(op))
    else:
        replies = yield _looks(op)
    if any(reply[0] for reply in replies):
        if not traits.server.migrates:
            raise SchemaError(
                f"the index of the namespace {op.namespace!r} is that of an earlier release: "
                "run `stateward migrate` with the URL of the store"
            )
        yield from spread(op.namespace, traits, op.kind)
        listed = None
    traits.filled.add(op.namespace)
    return (yield from listing(op, traits)) if listed is None else listed


def _looks(op: List) -> list[PipelineStep]:
    keys = [kinds_index(op.namespace)]
    if op.recent and op.kind is not None:
        keys.append(f"{kind_index(op.namespace, op.kind)}:touched")
    return [PipelineStep(key, (("EXISTS", key),)) for key in keys]


def spread(namespace: str, traits: Traits, kind: str | None = None) -> Plan[int]:
    """Move all that a namespace has in the old form; `kind` besides those that it names.

    Returns how many entities it met.
    """
    index = kinds_index(namespace)
    members = (yield (PipelineStep(index, (("ZRANGE", index, 0, -1),)),))[0][0]
    kinds = dict.fromkeys(split_member(member)[0] for member in members)
    moved = 0
    for each in kinds if kind is None else {**kinds, kind: None}:
        ids = kind_index(namespace, each)
        for key in (ids, f"{ids}:touched"):
            moved += yield from _move(namespace, each, key, traits)
        yield [_unlinked(f"{ids}{end}") for end in (":status", ":due", ":added")]
        yield [_unlinked(f"{ids}{end}:added") for end in (":status", ":due", ":touched")]
    if members:
        yield from _forget_owners(namespace, list(kinds))
        yield [_unlinked(key) for key in (format_mark(namespace), f"{index}:added")]
        yield [_unlinked(index)]  # last: it says that there is something to do
    return moved


def _forget_owners(namespace: str, kinds: Sequence[str]) -> Plan[None]:
    """What was touched when of whose: all of it is in the parts, but what was dropped."""
    index, owners = owners_index(namespace), [b""]
    while owners:
        theirs = [touched_index(namespace, k, owner.decode()) for owner in owners for k in kinds]
        yield [_unlinked(key) for its in theirs for key in (its, f"{its}:added")]
        if owners != [b""]:
            yield (PipelineStep(index, (("ZREM", index, *owners),)),)
        owners = (yield (PipelineStep(index, (("ZRANGE", index, 0, TOGETHER - 1),)),))[0][0]
    yield [_unlinked(f"{index}:added")]


def _move(namespace: str, kind: str, key: str, traits: Traits) -> Plan[int]:
    moved = 0
    while True:
        members = (yield (PipelineStep(key, (("ZRANGE", key, 0, TOGETHER - 1),)),))[0][0]
        if not members:
            return moved
        entities = [Entity(namespace, kind, member.decode()) for member in members]
        heads = [keys_of(entity).head for entity in entities]
        more = ("status", "due", "due_at", "sweep")
        found = yield [PipelineStep(head, (("HMGET", head, *TOUCH, *more),)) for head in heads]
        entries: dict[IndexEntry, None] = {}  # each kind and owner once
        gone = [PipelineStep(key, (("ZREM", key, *members),))]
        for entity, (fields,) in zip(entities, found, strict=True):
            entries |= dict.fromkeys(_entries(entity, fields))
            if fields[0] is not None:  # what was dropped is still to be swept
                keys = keys_of(entity)
                gone += [
                    PipelineStep(each, (("ZREM", each, keys.tag),))
                    for each in (keys.sweep, f"{keys.sweep}:added")
                ]
        if entries:
            yield write_steps(entries, traits.at())
        yield gone
        moved += len(members)


def _entries(entity: Entity, fields: Sequence[Any]) -> list[IndexEntry]:
    """What the index must say of an entity, or nothing if it was dropped."""
    touched = touch_of(fields[: len(TOUCH)])
    if touched is None:
        return []
    minute, owner = touched
    status, due, due_at, sweep = ((field or b"").decode() for field in fields[len(TOUCH) :])
    due = due_at or due
    which = "k" + "s" * bool(status) + "o" * bool(owner) + "d" * bool(due) + "w" * bool(sweep)
    found = entries_of(entity, which, minute, owner, status, due, sweep)
    # Only upwards: whoever touches it meanwhile knows better.
    return [entry._replace(score=entry.score.replace("=", ">")) for entry in found]


def _unlinked(key: str) -> PipelineStep:
    return PipelineStep(key, (("UNLINK", key),))
