"""Actions on kinds of workflows: paused, so that workers take none of them."""

from __future__ import annotations

from msgspec import Struct

from stateward.actions.action import Actions, Call, Rest
from stateward.actions.arguments import Name, Nothing
from stateward.kinds import PAUSE


class OneKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which kind of workflow."""

    kind: Name


class KindNames(Struct, frozen=True):
    """Kinds of workflows."""

    items: list[str]


KINDS = Actions(PAUSE)


@KINDS.action(
    "kind list",
    Nothing,
    KindNames,
    right="kinds.read",
    role="reader",
    about="",
    reads=True,
    unlogged="it names kinds of workflows, and nothing of people",
    rest=Rest("GET /v1/kinds/paused"),
)
async def _paused(call: Call) -> KindNames:
    """List the kinds of workflows that are paused."""
    return KindNames(await call.store.paused())


@KINDS.action(
    "kind pause",
    OneKind,
    None,
    right="kinds.pause",
    role="operator",
    about="kind",
    rest=Rest("POST /v1/kinds/{kind}/pause"),
)
async def _pause(call: Call) -> None:
    """Pause a kind of workflow: workers take none of it."""
    await call.store.pause(call.arguments.kind)


@KINDS.action(
    "kind resume",
    OneKind,
    None,
    right="kinds.resume",
    role="operator",
    about="kind",
    rest=Rest("POST /v1/kinds/{kind}/resume"),
)
async def _resume(call: Call) -> None:
    """Resume a kind of workflow."""
    await call.store.resume(call.arguments.kind)
