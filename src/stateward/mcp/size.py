"""Limits for the size of a tool's answer: a model reads all of it, and pays for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from stateward.actions.page import page_of as first_items

T = TypeVar("T", bound=Struct)
MOST = 40_000  # characters of JSON in one answer
SHARE = 5  # items that a page has room for at least, if it may have that many
LEAST = 80  # characters that are left of whatever is cut
# Fields that hold whatever agents and people have put there, be it very long.
FREE = {
    *("message", "value", "state", "ask", "args", "kwargs", "result", "error", "last_error"),
    *("documents", "summary"),
}


class ToolPage(Struct, Generic[T], frozen=True):
    """Some of a list.

    `next` is what to pass as `after` for more; null: these were the last. `shortened` says in how
    many of the items something was cut: a text that ends with "… [123 more characters]", an object
    or list that ends with "…". Ask with limit 1 to see more of one.
    """

    items: list[T]
    next: str | None
    shortened: int = 0


def page_of(
    found: Sequence[T], limit: int, cursor: Callable[[T], str], *, more: bool, back: bool = False
) -> ToolPage[T]:
    """As many of the items as there is room for; with `back`, the last ones.

    `more`: there are others beyond the last one found, or before the first.
    """
    room, shortened = MOST, 0
    shown_items: list[T] = []
    for item in reversed(found) if back else found:
        shown = short(item, MOST // min(limit, SHARE))
        room -= _size(shown)
        if shown_items and room < 0:
            more = True
            break
        shown_items.append(shown)
        shortened += shown is not item
    following = cursor(shown_items[-1]) if more and shown_items else None
    return ToolPage(shown_items[::-1] if back else shown_items, following, shortened)


async def listed_page(
    listing: AsyncIterator[T], limit: int, cursor: Callable[[T], str]
) -> ToolPage[T]:
    """Return the first page of a listing; a page of `limit` items may be followed by others."""
    page = await first_items(listing, limit, cursor)
    return page_of(page.items, limit, cursor, more=page.next is not None)


def short(item: T, room: int) -> T:
    """Return the item, its free fields cut so that it fits into the room."""
    over = _size(item) - room
    if over <= 0:
        return item
    free = {name: getattr(item, name) for name in item.__struct_fields__ if name in FREE}
    sizes = {name: _size(value) for name, value in free.items()}
    left = max(0, sum(sizes.values()) - over)
    parts = {name: left * sizes[name] // (sum(sizes.values()) or 1) for name in free}
    return msgspec.structs.replace(
        item, **{name: cut(value, parts[name]) for name, value in free.items()}
    )


def cut(value: Any, room: int) -> Any:
    """The beginning of a JSON value: a text stays a text, an object an object, a list a list."""
    room = max(room, LEAST)
    size = _size(value)
    if size <= room:
        return value
    if isinstance(value, str):
        left = max(1, len(value) * (room - 30) // size)
        return f"{value[:left]}… [{len(value) - left:,} more characters]"
    if isinstance(value, dict):
        shown = _first([(name, item) for name, item in value.items()], room)
        rest = len(value) - len(shown)
        return dict(shown) | ({"…": f"{rest:,} more"} if rest else {})
    if isinstance(value, list | tuple):
        items = [item for _, item in _first([("", item) for item in value], room)]
        rest = len(value) - len(items)
        return [*items, *([f"… {rest:,} more"] if rest else [])]
    return value


def _first(items: list[tuple[str, Any]], room: int) -> list[tuple[str, Any]]:
    """The first of some items, each with its share of the room that is left."""
    first: list[tuple[str, Any]] = []
    room -= LEAST // 2
    for at, (name, item) in enumerate(items):
        share = max(LEAST, room // min(SHARE, len(items) - at)) - len(name)
        shown = cut(item, share)
        room -= _size(shown) + len(name) + 4
        if room < 0:
            break
        first.append((name, shown))
    return first


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
