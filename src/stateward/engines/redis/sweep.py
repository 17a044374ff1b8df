"""Physical removal, in bounded steps, of what no caller can reach any more."""

from __future__ import annotations

from collections import deque

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.index import IndexEntry, correct_steps, entries_of
from stateward.engines.redis.keys import (
    SWEPT,
    SWEPT_PARTS,
    entity_of,
    keys_of,
    owner_index,
    spread_keys,
    touched_index,
)
from stateward.engines.redis.outcomes import other_format
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import SWEEP
from stateward.ops import Sweep, Swept

TOGETHER = 16  # entities swept in one round


def sweep(op: Sweep, traits: Traits) -> Plan[Swept]:
    shards = SWEPT if traits.inline else SWEPT_PARTS
    asked = [
        PipelineStep(
            key,
            (("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, op.limit),),
            timed=True,
        )
        for key in shards
    ]
    waiting: deque[tuple[str, str]] = deque()  # tag, and the owner it is thought to have
    more = False
    for replies in (yield asked):
        now, flat = traits.now(replies[0]), replies[1]
        tags = [
            tag.decode()
            for tag, score in zip(flat[::2], flat[1::2], strict=True)
            if float(score) <= now
        ]
        more = more or len(tags) >= op.limit
        waiting.extend((tag, "") for tag in tags)

    entities = rows = done = 0  # entities that must stay must not be tried forever
    while waiting and rows < op.limit:
        room = op.limit - rows
        together = [waiting.popleft() for _ in range(min(TOGETHER, len(waiting), room))]
        each = max(1, room // len(together))
        steps = [_step(tag, owner, each, traits) for tag, owner in together]
        wrong: list[IndexEntry] = []
        for (tag, _), replies in zip(together, (yield steps), strict=True):
            removed, state, *fields = replies[0]
            if state == -2:
                raise other_format()
            over, owner, status, due = (word.decode() for word in fields)
            rows += removed
            entities += state == 1
            done += removed + (traits.inline and state == -1)
            if state == 0:
                waiting.appendleft((tag, owner))
            elif not traits.inline:
                wrong += _wrong(tag, state == 1, over, owner, status, due)
        if wrong:
            done += sum(replies[0] for replies in (yield correct_steps(wrong, traits.at())))
    return Swept(entities, rows, more=bool(waiting) or (more and done > 0))


def _step(tag: str, owner: str, room: int, traits: Traits) -> PipelineStep:
    entity = entity_of(tag)
    keys = keys_of(entity)
    if not traits.inline:
        names = (*keys.own, keys.none)
    else:
        index = owner_index(entity.namespace, owner)
        names = (
            *(*keys.own, keys.ids, keys.statuses, keys.due),
            *(index, f"{index}:status", keys.sweep, keys.touched),
            *(touched_index(entity.namespace, entity.kind, owner), keys.owners),
        )
    words: Command = (traits.at(), room, owner, keys.kind, entity.id, tag)
    command: Command = ("EVALSHA", SWEEP.sha, len(names), *names, *words)
    return PipelineStep(keys.head, (command,), True)


def _wrong(tag: str, gone: bool, over: str, owner: str, status: str, due: str) -> list[IndexEntry]:
    """Return wrong entries of a cluster's index: of an entity that is gone, or not yet over."""
    entity = entity_of(tag)
    if not gone:
        (entry,) = entries_of(entity, "w", 0, "", "", "", over)
        return [entry]
    which = "kw" + "o" * bool(owner) + "s" * bool(status) + "d" * bool(due)
    which += "p" if owner and status else ""
    entries = entries_of(entity, which, 0, owner, status, due, "")
    keys = spread_keys(entity)
    shared = (keys.kinds, keys.owners)  # other entities may need them
    return [entry._replace(score="") for entry in entries if entry.key not in shared]
