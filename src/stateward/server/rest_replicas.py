"""The REST API of what runs: replicas as their heartbeats tell, and how the store is."""

from __future__ import annotations

from msgspec import Struct

from stateward.records import Health, ReplicaInfo
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, RestRoute


class ReplicasShown(Struct, frozen=True):
    """Processes that have the namespace open, or had it in the last hour; those that live first."""

    items: list[ReplicaInfo]


async def _replicas(call: RestCall) -> Reply:
    return answer(ReplicasShown(await call.store.replicas()))


async def _health(call: RestCall) -> Reply:
    return answer(await call.store.health())


REPLICAS = (
    RestRoute(
        "GET",
        "/v1/replicas",
        "operate",
        _replicas,
        "Who has the store open, as their heartbeats tell",
        ReplicasShown,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/health",
        "operate",
        _health,
        "Whether the store answers, with breaker, spill and alarms; 200 also if it does not",
        Health,
        one_users=False,
    ),
)
