"""Measurements over time, read from the heartbeats of all processes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stateward.kinds import HEARTBEAT, SIGNALS
from stateward.ops import Fetch, Fetched, List, Listed, Log
from stateward.records import Signals
from stateward.state.scope import Scope
from stateward.state.signal_record import STRETCH, SignalSpan, merged

PROCESSES = 200  # at most; the last that sent a heartbeat


async def signals_of(
    scope: Scope,
    namespaces: Sequence[str],
    concerned: str,
    span: SignalSpan,
    replica: str | None = None,
) -> Signals:
    """Return the signals of all processes in these namespaces, or of one of them.

    Entities that events concerned are listed for the namespace `concerned` alone.
    """
    now = scope.world.now()
    page = min(PROCESSES, scope.capabilities.page)
    asked = [List(each, HEARTBEAT, recent=True, limit=page) for each in namespaces]
    entities = []
    for processes in await scope.execute_here(asked):
        assert isinstance(processes, Listed)
        for process in processes.entities:
            # Processes send a heartbeat every ten minutes at least, and clocks differ.
            recent = process.head.updated > now - span.since - 2 * STRETCH
            if recent and replica in (None, process.entity.id):
                entities.append(process.entity)
    if not entities:
        return merged((), concerned, span, now)
    log = Log(last=math.ceil(span.since / STRETCH) + 2)
    readings = []
    fetches = [Fetch(each, log=log, documents=(SIGNALS,)) for each in entities]
    for fetch, fetched in zip(fetches, await scope.execute_here(fetches), strict=True):
        if isinstance(fetched, Fetched):
            readings.append((fetch.entity.id, fetched))
            now = max(now, fetched.head.updated)  # the store's clock may be ahead of ours
    # There may be tens of thousands of readings: do not block the event loop.
    return await scope.world.offload(merged, readings, concerned, span, now)
