"""What changed since: the entities of a namespace that were touched, at least once each."""

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
    """Look after look; a page of every kind is one round trip."""
    chosen, cursors = chosen_kinds(kinds), cursors_of(after)
    feeds = {
        kind: (scope, KindFeed(scope.namespace, kind, cursors.get(kind)))
        for kind in chosen
        for scope in (layered[section_of(kind)],)
    }
    world = next(iter(feeds.values()))[0].world
    while True:
        while looking := [(scope, feed) for scope, feed in feeds.values() if feed.looking]:
            # What lies between is told again after a resumption: a page is told as a whole.
            before = _cursor(cursors, feeds)
            fresh = await _page(layered, looking)
            for found in fresh[:-1]:
                yield _change(found, before)
            for found in fresh[-1:]:
                yield _change(found, _cursor(cursors, feeds))
        if not wait:
            return
        await world.pause(poll)
        for _, feed in feeds.values():
            feed.look()


async def _page(layered: Layered, looking: list[tuple[Scope, KindFeed]]) -> list[Found]:
    """The next page of each kind: what of it was not told yet, in the order of the touches."""
    asked = [(scope, feed.listing()) for scope, feed in looking]
    fresh: list[Found] = []
    for (_, feed), listed in zip(looking, await layered.execute(asked), strict=True):
        assert isinstance(listed, Listed)
        fresh += feed.take(listed)
    fresh.sort(key=lambda found: found.head.updated)
    return fresh


def _cursor(cursors: dict[str, KindCursor], feeds: dict[str, tuple[Scope, KindFeed]]) -> str:
    """Also of the kinds that another call has asked for."""
    return cursor_text({**cursors, **{kind: feed.cursor for kind, (_, feed) in feeds.items()}})


def _change(found: Found, cursor: str) -> EntityChange:
    entity, head = found.entity, found.head
    owner = head.owner or None
    at = moment(head.updated)
    return EntityChange(entity.kind, entity.id, owner, head.version, head.commits, at, cursor)
