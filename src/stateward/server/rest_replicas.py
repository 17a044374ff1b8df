"""The REST API of what runs: replicas as their heartbeats tell, and how the store is."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stateward.records import Health, ReplicaInfo
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, Routes
from stateward.state.replica_record import listings, replicas_in


class ReplicasShown(Struct, frozen=True):
    """Processes that have the namespace open, or had it in the last hour; those that live first."""

    items: list[ReplicaInfo]


REPLICAS = Routes("replicas")


@REPLICAS.route("GET /v1/replicas", "operate", ReplicasShown, one_users=False)
async def _replicas(call: RestCall) -> Reply:
    """List the processes that have the store open, by their heartbeats."""
    if call.asker.namespaces is None:
        return answer(ReplicasShown(await call.store.replicas()))
    # The service's own processes serve other tenants too: where they run is not for this one.
    scope = call.store.sections["workflows"]
    outcomes = await scope.execute(listings(scope.namespace))
    return answer(ReplicasShown(replicas_in(outcomes, scope.world.now())))


@REPLICAS.route("GET /v1/health", "operate", Health, right="health.read", one_users=False)
async def _health(call: RestCall) -> Reply:
    """Check the store, with breaker, spill and alarms; 200 even if it does not answer."""
    health = await call.store.health()
    if call.asker.namespaces is not None:  # other tenants are in these numbers, too
        health = replace(health, bytes=None, parts={})
    return answer(health)
