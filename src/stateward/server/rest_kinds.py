"""The REST API of kinds of workflows: paused, so that workers take none of them."""

from __future__ import annotations

from msgspec import Struct

from stateward.kinds import PAUSE
from stateward.server.reply import Reply
from stateward.server.rest import answer
from stateward.server.route import RestCall, Routes


class KindNames(Struct, frozen=True):
    """Kinds of workflows."""

    items: list[str]


KINDS = Routes()


@KINDS.route("GET /v1/kinds/paused", "read", KindNames, one_users=False)
async def _paused(call: RestCall) -> Reply:
    """List the kinds of workflows that are paused."""
    return answer(KindNames(await call.store.paused()))


@KINDS.logged("kind pause", kind=PAUSE)
@KINDS.route("POST /v1/kinds/{kind}/pause", "operate", None, one_users=False)
async def _pause(call: RestCall) -> Reply:
    """Pause a kind of workflow: workers take none of it."""
    await call.store.pause(call.path["kind"])
    return Reply(204)


@KINDS.logged("kind resume", kind=PAUSE)
@KINDS.route("POST /v1/kinds/{kind}/resume", "operate", None, one_users=False)
async def _resume(call: RestCall) -> Reply:
    """Resume a kind of workflow."""
    await call.store.resume(call.path["kind"])
    return Reply(204)
