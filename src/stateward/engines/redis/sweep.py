"""Physical removal, in bounded steps, of what no caller can reach any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

from stateward.engines.redis.commit import Command
from stateward.engines.redis.index import IndexEntry, correct_steps, entries_of
from stateward.engines.redis.keys import SHARDS, entity_of, keys_of, owner_index, sweep_index
from stateward.engines.redis.plans import Traits
from stateward.engines.redis.scripts import SWEEP
from stateward.engines.redis.steps import PlanStep
from stateward.ops import Sweep, Swept

TOGETHER = 16  # entities swept in one round


def sweep(op: Sweep, setting: Traits) -> Generator[Sequence[PlanStep], Any, Swept]:
    shards = [sweep_index(shard) for shard in range(SHARDS)]
    asked = [
        PlanStep(
            key,
            (("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, op.limit),),
            timed=True,
        )
        for key in shards
    ]
    waiting: deque[tuple[str, str]] = deque()  # tag, and the owner it is thought to have
    more = False
    for replies in (yield asked):
        now, flat = setting.now(replies[0]), replies[1]
        tags = [
            tag.decode()
            for tag, score in zip(flat[::2], flat[1::2], strict=True)
            if float(score) <= now
        ]
        more = more or len(tags) >= op.limit
        waiting.extend((tag, "") for tag in tags)

    entities = rows = done = 0  # what cannot be done yet must not be asked for again and again
    while waiting and rows < op.limit:
        room = op.limit - rows
        together = [waiting.popleft() for _ in range(min(TOGETHER, len(waiting), room))]
        each = max(1, room // len(together))
        steps = [_step(tag, owner, each, setting) for tag, owner in together]
        wrong: list[IndexEntry] = []
        for (tag, _), replies in zip(together, (yield steps), strict=True):
            removed, state, *said = replies[0]
            over, owner, status, due = (word.decode() for word in said)
            rows += removed
            entities += state == 1
            done += removed + (setting.inline and state == -1)
            if state == 0:
                waiting.appendleft((tag, owner))
            elif not setting.inline:
                wrong += _wrong(tag, state == 1, over, owner, status, due)
        if wrong:
            done += sum(replies[0] for replies in (yield correct_steps(wrong, setting.at())))
    return Swept(entities, rows, more=bool(waiting) or (more and done > 0))


def _step(tag: str, owner: str, room: int, setting: Traits) -> PlanStep:
    entity = entity_of(tag)
    where = keys_of(entity)
    keys = where.keys
    if setting.inline:
        index = owner_index(entity.namespace, owner)
        keys = (
            *keys,
            where.ids,
            where.statuses,
            where.due,
            index,
            f"{index}:status",
            where.sweep,
        )
    command: Command = (
        "EVALSHA",
        SWEEP.sha,
        len(keys),
        *keys,
        setting.at(),
        room,
        owner,
        where.kind,
        entity.id,
        tag,
    )
    return PlanStep(keys[0], (command,), True)


def _wrong(tag: str, gone: bool, over: str, owner: str, status: str, due: str) -> list[IndexEntry]:
    """What the index of a cluster says of an entity though it is gone, or not yet over."""
    entity = entity_of(tag)
    where = keys_of(entity)
    if not gone:
        return [IndexEntry(where.sweep, tag.encode(), over)]
    which = "kw" + "o" * bool(owner) + "s" * bool(status) + "d" * bool(due)
    which += "p" if owner and status else ""
    found = entries_of(entity, where, which, owner, status, due, "")
    return [entry._replace(score="") for entry in found if entry.key != where.kinds]
