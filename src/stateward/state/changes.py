"""The change feed of a namespace: each entity that was touched, at least once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from stateward.ops import Found, Listed
from stateward.records import EntityChange, moment
from stateward.state.change_feed import (
    KindCursor,
    KindFeed,
    chosen_kinds,
    cursor_text,
    cursors_of,
    section_of,
)
from stateward.state.layered import Layered
from stateward.state.scope import Scope


async def changes_after(
    layered: Layered,
    kinds: str | Iterable[str] | None,
    after: str | None,
    *,
    wait: bool,
    poll: float,
) -> AsyncIterator[EntityChange]:
    """Yield changes look by look; one page of every kind is one round trip."""
    chosen, cursors = chosen_kinds(kinds), cursors_of(after)
    feeds = {
        kind: (scope, KindFeed(scope.namespace, kind, cursors.get(kind)))
        for kind in chosen
        for scope in (layered[section_of(kind)],)
    }
    world = next(iter(feeds.values()))[0].world
    while True:
        while looking := [(scope, feed) for scope, feed in feeds.values() if feed.looking]:
            # A feed resumed within a page repeats it, so only its last change has a new cursor.
            before = _cursor(cursors, feeds)
            fresh = await _page(layered, looking)
            for number, touched in enumerate(fresh, 1):
                is_last = number == len(fresh)
                yield _change(touched, _cursor(cursors, feeds) if is_last else before)
        if not wait:
            return
        await world.pause(poll)
        for _, feed in feeds.values():
            feed.look()


async def _page(layered: Layered, looking: list[tuple[Scope, KindFeed]]) -> list[Found]:
    """Return what was not reported yet of the next page of each kind, in order of the touches."""
    asked = [(scope, feed.listing()) for scope, feed in looking]
    fresh: list[Found] = []
    for (_, feed), listed in zip(looking, await layered.execute(asked), strict=True):
        assert isinstance(listed, Listed)
        fresh += feed.take(listed)
    fresh.sort(key=lambda touched: touched.head.updated)
    return fresh


def _cursor(cursors: dict[str, KindCursor], feeds: dict[str, tuple[Scope, KindFeed]]) -> str:
    """Return the cursor, which also covers the kinds that only other calls have requested."""
    return cursor_text({**cursors, **{kind: feed.cursor for kind, (_, feed) in feeds.items()}})


def _change(touched: Found, cursor: str) -> EntityChange:
    entity, head = touched.entity, touched.head
    owner = head.owner or None
    at = moment(head.updated)
    return EntityChange(entity.kind, entity.id, owner, head.version, head.commits, at, cursor)
