"""The REST API of what processes measured over time."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stateward.records import Signals
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, Routes
from stateward.state.signal_record import DAY, RESOLUTION, SignalSpan
from stateward.state.signals import signals_of


class SignalsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many seconds to look back, how many a point stands for, and perhaps one process alone."""

    since: Annotated[float, Meta(gt=0, le=DAY)] = 3600.0
    step: Annotated[float, Meta(ge=RESOLUTION, le=DAY)] | None = None
    replica: str | None = None


SIGNALS = Routes("signals")


@SIGNALS.route("GET /v1/signals", "read", Signals, SignalsQuery, one_users=False)
async def _signals(call: RestCall) -> Reply:
    """Get what the processes measured over time, and what it concerned."""
    query: SignalsQuery = call.query
    if call.asker.namespaces is None:
        return answer(await call.store.signals(query.since, query.step, replica=query.replica))
    # The service's own processes serve other tenants too: not even their numbers are for this one.
    scope, span = call.store.sections["workflows"], SignalSpan.of(query.since, query.step)
    own = scope.namespace
    return answer(await signals_of(scope, (own,), own, span, query.replica))
