"""The REST API of kinds of workflows: paused, so that workers take none of them."""

from __future__ import annotations

from msgspec import Struct

from stateward.kinds import PAUSE
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, RestRoute, RouteDeed


class KindNames(Struct, frozen=True):
    """Kinds of workflows."""

    items: list[str]


async def _paused(call: RestCall) -> Reply:
    return answer(KindNames(await call.store.paused()))


async def _pause(call: RestCall) -> Reply:
    await call.store.pause(call.path["kind"])
    return Reply(204)


async def _resume(call: RestCall) -> Reply:
    await call.store.resume(call.path["kind"])
    return Reply(204)


KINDS = (
    RestRoute(
        "GET",
        "/v1/kinds/paused",
        "read",
        _paused,
        "List the kinds of workflows that are paused",
        KindNames,
        one_users=False,
    ),
    RestRoute(
        "POST",
        "/v1/kinds/{kind}/pause",
        "operate",
        _pause,
        "Pause a kind of workflow: workers take none of it",
        status=204,
        one_users=False,
        deed=RouteDeed("kind pause", PAUSE, "kind"),
    ),
    RestRoute(
        "POST",
        "/v1/kinds/{kind}/resume",
        "operate",
        _resume,
        "Resume a kind of workflow",
        status=204,
        one_users=False,
        deed=RouteDeed("kind resume", PAUSE, "kind"),
    ),
)
