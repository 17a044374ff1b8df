"""Listings by id or by last update, of threads, workflows and tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from stateward.codec import check_count
from stateward.errors import InvalidInput
from stateward.kinds import THREAD
from stateward.ops import Entity, Found, List, Listed
from stateward.state.page_cursor import PageCursor, cursors
from stateward.state.scope import Scope

Order = Literal["id", "recent"]
Wanted = Callable[[Found], bool]


async def listed(
    scope: Scope,
    op: List,
    order: Order = "id",
    before: str | None = None,
    limit: int | None = None,
    wanted: Wanted | None = None,
    *,
    rare: bool = False,
) -> AsyncIterator[tuple[Found, str]]:
    """Yield entities in an order, each with the cursor after it; "" in the order of ids.

    `rare`: few entities may be `wanted`, so pages are larger than `limit`.
    """
    if order not in ("id", "recent"):
        raise InvalidInput(f'order is "id" or "recent", not {order!r}')
    if limit is not None:
        check_count(limit, "limit")
    if order == "recent":
        if op.reverse:
            raise InvalidInput('order="recent" is newest first: leave reverse out')
        source = _recent(scope, op, before, None if rare else limit, wanted)
    elif before is not None:
        raise InvalidInput('before= continues a listing by time: pass order="recent" too')
    else:
        source = _by_id(scope, op, wanted)
    left = limit
    async for entity, cursor in source:
        yield entity, cursor
        if left is not None:
            left -= 1
            if left == 0:
                return


async def _by_id(scope: Scope, op: List, wanted: Wanted | None) -> AsyncIterator[tuple[Found, str]]:
    async for page in scope.pages(op):
        empty = await not_begun(scope, page.entities)
        for entity in page.entities:
            if entity.entity not in empty and (wanted is None or wanted(entity)):
                yield entity, ""


async def _recent(
    scope: Scope, op: List, before: str | None, limit: int | None, wanted: Wanted | None
) -> AsyncIterator[tuple[Found, str]]:
    """Read page by page; a limited listing without conditions is one round trip."""
    cursor = PageCursor(None) if before is None else PageCursor.of(before)
    largest = scope.capabilities.page
    usual = largest if limit is None else min(limit, largest)
    after, size = cursor.page, min(cursor.size, largest) or usual
    while True:
        page = (await scope.execute((replace(op, recent=True, after=after, limit=size),)))[0]
        assert isinstance(page, Listed)
        empty = await not_begun(scope, page.entities)
        for entity, then in zip(
            page.entities, cursors(page.entities, after, page.next, size), strict=True
        ):
            if entity.entity in empty or cursor.was_shown(entity):
                continue
            if wanted is None or wanted(entity):
                yield entity, str(then)
        if page.next is None:
            return
        after, size = page.next, usual


async def not_begun(scope: Scope, listed: Sequence[Found]) -> frozenset[Entity]:
    """Return the conversations that hold nothing: only a lease has made them.

    They stay, because others may be writing there, but are not shown.
    """
    silent = [
        each.entity
        for each in listed
        if each.entity.kind == THREAD and not each.head.version and not each.documents
    ]
    if not silent:
        return frozenset()
    asked = [List(each.namespace, within=each, values=False, limit=1) for each in silent]
    outcomes = await scope.execute(asked)
    return frozenset(
        each
        for each, page in zip(silent, outcomes, strict=True)
        if isinstance(page, Listed) and not page.documents
    )
