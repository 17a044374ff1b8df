"""Pages of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """Some of a list. `next` is what to pass as `after` for more; null: these were the last."""

    items: list[T]
    next: str | None


async def page_of(listing: AsyncIterator[T], limit: int, cursor: Callable[[T], str]) -> Page[T]:
    """Return the first items of a listing. It is known to have no more if it ends before."""
    items: list[T] = []
    async for item in listing:
        items.append(item)
        if len(items) == limit:
            break
    if isinstance(listing, AsyncGenerator):
        await listing.aclose()
    return Page(items, cursor(items[-1]) if len(items) == limit else None)


async def past(
    listing: AsyncIterator[T], after: str | None, name: Callable[[T], str]
) -> AsyncIterator[T]:
    """Yield the items after a name in a listing that is ordered by the bytes of names."""
    async for item in listing:
        if after is None or name(item).encode() > after.encode():
            yield item
