"""Actions on effects: what tools did, or may have done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from stateward.actions.action import ActionCall, Actions, Cli, Mcp, Rest
from stateward.actions.arguments import NAME, After, Arguments, Id, Limit, Name, User, Words
from stateward.kinds import EFFECT
from stateward.records import EffectInfo

STATUS = Literal["intended", "done", "failed", "unknown"] | None


async def _info(call: ActionCall) -> EffectInfo | None:
    return await call.store.effect(call.arguments.effect).info()


EFFECTS = Actions(EFFECT, _info)


class ListEffects(Arguments, frozen=True):
    """Which effects, by id: those that are unknown the oldest first."""

    user: User = None
    status: Annotated[STATUS, "Only those with this status; unknown: a person has to decide."] = (
        None
    )
    of_thread: Annotated[Name | None, "Only effects of this conversation."] = None
    of_workflow: Annotated[Name | None, "Only effects of this workflow."] = None
    name: Annotated[Id | None, "Only effects of this function or tool."] = None
    limit: Limit = 100
    after: After = None


@EFFECTS.list(
    ListEffects,
    EffectInfo,
    lambda info: info.cursor,
    for_one_user=True,
    rest=Rest("GET /v1/effects"),
    mcp=Mcp(
        "list_effects",
        "List what agents' tools did in other systems (payments, emails …), by default those whose "
        "outcome is unknown, so that a person has to decide.",
        {"status": "unknown"},
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[EffectInfo]:
    """List effects: what tools did, or may have done."""
    asked: ListEffects = call.arguments
    return call.store.effects(
        asked.status,
        user=call.whose,
        thread=asked.of_thread,
        workflow=asked.of_workflow,
        name=asked.name,
        after=asked.after,
        limit=asked.limit,
    )


class OneEffect(Arguments, frozen=True):
    """Which effect."""

    effect: Annotated[str, NAME, "The effect's id, as `effect list` shows it."]


@EFFECTS.read(
    "show", OneEffect, EffectInfo, for_one_user=True, rest=Rest("GET /v1/effects/{effect}")
)
async def _show(call: ActionCall) -> EffectInfo | None:
    """Get an effect."""
    return await _info(call)


class ResolveEffect(OneEffect, frozen=True, kw_only=True):
    """What became of an effect."""

    decision: Literal["done", "failed", "not done"]
    result: Any = None
    error: Words = ""


@EFFECTS.change(
    "resolve",
    ResolveEffect,
    EffectInfo,
    logs=("decision",),
    rest=Rest("POST /v1/effects/{effect}/resolve", "ResolveBody"),
    cli=Cli(
        """\
Check with the service first: `effect show` prints the key it was given. Then record what happened.
Done: every call gets the result. Failed: every call raises the text. Not done: the next call
carries it out. An effect that is being carried out, or is done, is left alone.

examples:
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --done '{"id": "ch_42"}'
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --not-done --dry-run
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --failed declined --yes""",
        "Decide that {effect!r} is {decision}",
        "resolved",
    ),
)
async def _resolve(call: ActionCall) -> EffectInfo:
    """Record the outcome of an effect that is unknown or failed."""
    asked: ResolveEffect = call.arguments
    return await call.store.effect(asked.effect).resolve(
        asked.decision, result=asked.result, error=asked.error, by=call.principal.who
    )
