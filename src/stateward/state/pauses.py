"""Kinds of workflows that are paused: no worker takes one of them."""

from __future__ import annotations

from stateward.codec import check_id, encode
from stateward.kinds import PAUSE
from stateward.ops import Drop, Fetch, List, Put
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.scope import Scope


async def pause(scope: Scope, kind: str) -> None:
    """Workers take no workflow of this kind from now on; those in progress are not affected."""
    handle = _handle(scope, kind)
    stored(await handle.commit((Put(PAUSE, encode({"kind": kind}, "the pause")),)), handle.entity)


async def resume(scope: Scope, kind: str) -> None:
    """Workers take them again."""
    handle = _handle(scope, kind)
    stored(await handle.commit((Drop(),)), handle.entity)


async def paused(scope: Scope) -> list[str]:
    """The kinds that are paused."""
    wanted = List(scope.namespace, kind=PAUSE)
    pages = scope.pages(wanted, here=True)
    return [found.entity.id async for page in pages for found in page.entities]


def looked_up(scope: Scope, kind: str) -> Fetch:
    """What tells whether a kind is paused: whether it exists."""
    return Fetch(_handle(scope, kind).entity)


def _handle(scope: Scope, kind: str) -> Handle:
    return Handle(scope, scope.entity(PAUSE, check_id(kind, "the kind of a workflow")))
