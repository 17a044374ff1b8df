"""Actions on kinds of workflows: paused, so that workers take none of them."""

from __future__ import annotations

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, Cli, Rest
from stateward.actions.arguments import Arguments, Name, Nothing
from stateward.kinds import PAUSE


class OneKind(Arguments, frozen=True):
    """Which kind of workflow."""

    kind: Name


class KindNames(Struct, frozen=True):
    """Kinds of workflows."""

    items: list[str]


KINDS = Actions("kind", kind=PAUSE)


@KINDS.read(
    "list",
    Nothing,
    KindNames,
    about="",
    unlogged="it names kinds of workflows, and nothing of people",
    rest=Rest("GET /v1/kinds/paused"),
    cli=Cli(
        """\
Changes nothing.

examples:
  stateward kind list sqlite:///agents.db
  stateward kind list sqlite:///agents.db --json"""
    ),
)
async def _paused(call: ActionCall) -> KindNames:
    """List the kinds of workflows that are paused."""
    return KindNames(await call.store.paused())


@KINDS.change(
    "pause",
    OneKind,
    None,
    rest=Rest("POST /v1/kinds/{kind}/pause"),
    cli=Cli(
        """\
Workers take no workflow of this kind until stateward kind resume. What a worker is driving goes on.

examples:
  stateward kind pause sqlite:///agents.db refund --dry-run
  stateward kind pause sqlite:///agents.db refund --yes""",
        "Pause workflows of the kind {kind!r}",
        "paused",
    ),
)
async def _pause(call: ActionCall) -> None:
    """Pause a kind of workflow: workers take none of it."""
    await call.store.pause(call.arguments.kind)


@KINDS.change(
    "resume",
    OneKind,
    None,
    rest=Rest("POST /v1/kinds/{kind}/resume"),
    cli=Cli(
        """\
Workers take workflows of this kind again.

examples:
  stateward kind resume sqlite:///agents.db refund --dry-run
  stateward kind resume sqlite:///agents.db refund --yes""",
        "Resume workflows of the kind {kind!r}",
        "resumed",
    ),
)
async def _resume(call: ActionCall) -> None:
    """Resume a kind of workflow."""
    await call.store.resume(call.arguments.kind)
