"""The REST API of effects: what tools did, or may have done."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.kinds import EFFECT
from stateward.records import (
    EffectInfo,
)
from stateward.server.reply import Reply
from stateward.server.rest import (
    Limit,
    Page,
    answer,
    missing,
    page,
    whose,
)
from stateward.server.route import RestCall, RestRoute, RouteDeed


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


async def _effects(call: RestCall) -> Reply:
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


async def _effect(call: RestCall) -> Reply:
    info = await call.store.effect(call.path["effect"]).info()
    if info is None:
        raise missing("effect", call.path["effect"])
    return answer(info)


async def _resolve(call: RestCall) -> Reply:
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


EFFECTS = (
    RestRoute(
        "GET",
        "/v1/effects",
        "read",
        _effects,
        "List effects: what tools did, or may have done",
        Page[EffectInfo],
        EffectsQuery,
    ),
    RestRoute(
        "GET",
        "/v1/effects/{effect}",
        "read",
        _effect,
        "Get an effect",
        EffectInfo,
    ),
    RestRoute(
        "POST",
        "/v1/effects/{effect}/resolve",
        "operate",
        _resolve,
        "Record the outcome of an effect that is unknown or failed",
        EffectInfo,
        body=ResolveBody,
        deed=RouteDeed("effect resolve", EFFECT, "effect", ("decision",)),
    ),
)
