"""What was measured over time, read from the heartbeats of all processes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stateward.kinds import HEARTBEAT, SIGNALS
from stateward.ops import Fetch, Fetched, List, Listed, Log
from stateward.records import Signals
from stateward.state.scope import Scope
from stateward.state.signal_record import STRETCH, SignalSpan, merged

PROCESSES = 200  # that are read, those heard of last


async def signals_of(
    scope: Scope,
    namespaces: Sequence[str],
    concerned: str,
    span: SignalSpan,
    replica: str | None = None,
) -> Signals:
    """The signals of the processes that beat in these namespaces, or of one of them.

    Whom something concerned is told of the namespace `concerned` alone.
    """
    now = scope.world.now()
    page = min(PROCESSES, scope.capabilities.page)
    asked = [List(each, HEARTBEAT, recent=True, limit=page) for each in namespaces]
    entities = []
    for listed in await scope.execute_here(asked):
        assert isinstance(listed, Listed)
        for found in listed.entities:
            # Beats come every ten minutes at least, and clocks differ.
            is_heard = found.head.updated > now - span.since - 2 * STRETCH
            if is_heard and replica in (None, found.entity.id):
                entities.append(found.entity)
    if not entities:
        return merged((), concerned, span, now)
    log = Log(last=math.ceil(span.since / STRETCH) + 2)
    said = []
    fetches = [Fetch(each, log=log, documents=(SIGNALS,)) for each in entities]
    for fetch, fetched in zip(fetches, await scope.execute_here(fetches), strict=True):
        if isinstance(fetched, Fetched):
            said.append((fetch.entity.id, fetched))
            now = max(now, fetched.head.updated)  # by the store's clock it is that late
    # Tens of thousands of readings: others are not to wait for that.
    return await scope.world.offload(merged, said, concerned, span, now)
