"""Pages of an entity's documents."""

from __future__ import annotations

from typing import Any

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.outcomes import other_format, values_of
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.ranges import bounds_of
from stateward.engines.redis.scripts import DOCUMENTS
from stateward.ops import Entity, List, Listed


def list_documents(op: List, entity: Entity, traits: Traits) -> Plan[Any]:
    keys = keys_of(entity).own
    prefix = op.prefix.encode()
    after = None if op.after is None else op.after.encode()
    low, high = bounds_of(prefix, after, op.reverse)
    command: Command = (
        "EVALSHA",
        DOCUMENTS.sha,
        3,
        keys[0],
        keys[3],
        keys[4],
        "" if op.owner is None else f"={op.owner}",
        traits.at(),
        low,
        high,
        op.limit,
        "1" if op.reverse else "",
        "1" if op.values else "",
    )
    reply = (yield (PipelineStep(keys[0], (command,)),))[0][0]
    if reply == [b"V"]:
        raise other_format()
    documents = tuple(values_of(reply).items())
    page = documents[: op.limit]
    return Listed(documents=page, next=page[-1][0] if len(documents) > len(page) else None)
