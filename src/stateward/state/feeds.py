"""Following a log: every entry after a place, in order, once; gaps are said, never skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stateward.errors import Reset, Truncated
from stateward.ops import Entity, Entry, Fetch, Head, Log
from stateward.records import Cursor
from stateward.state.scope import Scope

WAIT = 5.0  # seconds a feed waits for a wake-up before it looks for itself


async def entries_after(
    scope: Scope, entity: Entity, owner: str | None, place: Cursor, *, follow: bool
) -> AsyncIterator[Entry]:
    """The entries after `place`; with `follow`, also those that come.

    Raises `Truncated` if entries it has not given were trimmed, and `Reset` if the history is no
    longer the one the cursor belongs to.
    """
    while True:
        page = Log(place.version, first=scope.capabilities.page, stamp=place.stamp, details=True)
        fetched = await scope.fetch(Fetch(entity, owner, page))
        if fetched.reset or (not fetched.head.exists and place.version):
            raise reset(entity)
        if fetched.truncated:
            base = fetched.head.base
            raise Truncated(
                f"entries {place.version + 1} to {base} of the {entity.kind} {entity.id!r} were "
                f"trimmed before they were read; go on with after={base}",
                base=base,
            )
        for entry in fetched.entries:
            place = Cursor(entry.seq, entry.stamp)
            yield entry
        if not follow and len(fetched.entries) < scope.capabilities.page:
            return
        if not fetched.entries:
            place = _passed(place, fetched.head)
            await scope.wait({entity: place.version}, WAIT)


def _passed(place: Cursor, head: Head) -> Cursor:
    """Behind entries that were removed there is nothing to give: the place is the end."""
    return Cursor(head.version, head.stamp) if head.version > place.version else place


def reset(entity: Entity) -> Reset:
    """The error of a history that is not the one meant."""
    return Reset(
        f"the history of the {entity.kind} {entity.id!r} is not the one you were reading: it was "
        "deleted, has expired, or was restored. Start again from the beginning"
    )
