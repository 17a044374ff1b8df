"""Paused kinds of workflows, of which workers start none."""

from __future__ import annotations

from stateward.codec import check_id, encode
from stateward.kinds import PAUSE
from stateward.ops import Drop, Fetch, List, Put
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.scope import Scope


async def pause(scope: Scope, kind: str) -> None:
    """Make workers start no workflow of this kind; those in progress are not affected."""
    handle = _handle(scope, kind)
    stored(await handle.commit((Put(PAUSE, encode({"kind": kind}, "the pause")),)), handle.entity)


async def resume(scope: Scope, kind: str) -> None:
    """Let workers start workflows of this kind again."""
    handle = _handle(scope, kind)
    stored(await handle.commit((Drop(),)), handle.entity)


async def paused(scope: Scope) -> list[str]:
    """Return the kinds that are paused."""
    pages = scope.pages(List(scope.namespace, kind=PAUSE), here=True)
    return [pause.entity.id async for page in pages for pause in page.entities]


def looked_up(scope: Scope, kind: str) -> Fetch:
    """Return the fetch of an entity that exists while the kind is paused."""
    return Fetch(_handle(scope, kind).entity)


def _handle(scope: Scope, kind: str) -> Handle:
    return Handle(scope, scope.entity(PAUSE, check_id(kind, "the kind of a workflow")))
