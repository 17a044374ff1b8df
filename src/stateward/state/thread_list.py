"""Listings of conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from stateward.kinds import THREAD
from stateward.ops import List
from stateward.records import ThreadInfo
from stateward.state.about import ABOUT, Labels, shown_in
from stateward.state.scope import Scope
from stateward.state.window_request import thread_info

if TYPE_CHECKING:
    from stateward.state.recent import Order


async def list_threads(
    scope: Scope,
    owner: str | None,
    prefix: str,
    reverse: bool,
    labels: Labels | None,
    archived: bool | None,
    order: Order,
    before: str | None,
    limit: int | None,
) -> AsyncIterator[ThreadInfo]:
    """Yield conversations by id, or the most recently updated first."""
    from stateward.state.recent import listed

    op = List(
        scope.namespace,
        kind=THREAD,
        owner=owner,
        prefix=prefix,
        reverse=reverse,
        documents=(ABOUT,),
    )
    wanted = shown_in(labels, archived)
    async for thread, cursor in listed(scope, op, order, before, limit, wanted, rare=bool(labels)):
        yield thread_info(thread, cursor)
