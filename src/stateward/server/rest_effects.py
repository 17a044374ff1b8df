"""The REST API of effects: what tools did, or may have done."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.records import EffectInfo
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Page, answer, missing, page, whose
from stateward.server.route import RestCall, Routes


class EffectsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which effects, by id: those that are unknown the oldest first."""

    user: str | None = None
    status: Literal["intended", "done", "failed", "unknown"] | None = None
    of_thread: str | None = None
    of_workflow: str | None = None
    name: str | None = None
    limit: Limit = 100
    after: str | None = None


class ResolveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an effect."""

    decision: Literal["done", "failed", "not done"]
    result: Any = None
    error: str = ""


EFFECTS = Routes()


@EFFECTS.route("GET /v1/effects", "read", Page[EffectInfo], EffectsQuery)
async def _effects(call: RestCall) -> Reply:
    """List effects: what tools did, or may have done."""
    query: EffectsQuery = call.query
    listing = call.store.effects(
        query.status,
        user=whose(call, query.user),
        thread=query.of_thread,
        workflow=query.of_workflow,
        name=query.name,
        after=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


@EFFECTS.logged("effect read", reads=True)
@EFFECTS.route("GET /v1/effects/{effect}", "read", EffectInfo)
async def _effect(call: RestCall) -> Reply:
    """Get an effect."""
    info = await call.store.effect(call.path["effect"]).info()
    if info is None:
        raise missing("effect", call.path["effect"])
    return answer(info)


@EFFECTS.logged("effect resolve", "decision")
@EFFECTS.route(
    "POST /v1/effects/{effect}/resolve", "operate", EffectInfo, body=ResolveBody, one_users=False
)
async def _resolve(call: RestCall) -> Reply:
    """Record the outcome of an effect that is unknown or failed."""
    body: ResolveBody = call.body
    effect = call.store.effect(call.path["effect"])
    try:
        done = await effect.resolve(
            body.decision, result=body.result, error=body.error, by=call.asker.who
        )
    except InvalidInput as error:
        if await effect.info() is None:
            raise missing("effect", call.path["effect"]) from error
        raise
    return answer(done)
