"""Following a log: each entry after a position once and in order; a gap raises."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stateward.codec import decode
from stateward.errors import Reset, Truncated
from stateward.ops import Entity, Entry, Head, Log
from stateward.records import Change, Cursor, moment
from stateward.state.handle import Handle

WAIT = 5.0  # seconds a feed waits for a wake-up before it polls


async def entries_after(handle: Handle, at: Cursor, *, follow: bool) -> AsyncIterator[Entry]:
    """Yield the entries after `at`; with `follow`, also future ones.

    Raises `Truncated` if entries were trimmed before they were yielded, and `Reset` if the history
    is no longer the one that the cursor belongs to.
    """
    scope, entity = handle.scope, handle.entity
    while True:
        page = Log(at.version, first=scope.capabilities.page, stamp=at.stamp, details=True)
        fetched = await handle.fetch(page)
        if fetched.reset or (not fetched.head.exists and at.version):
            raise reset(entity)
        if fetched.truncated:
            base = fetched.head.base
            raise Truncated(
                f"entries {at.version + 1} to {base} of the {entity.kind} {entity.id!r} were "
                f"trimmed before they were read; continue with after={base}",
                base=base,
            )
        for entry in fetched.entries:
            at = Cursor(entry.seq, entry.stamp)
            yield entry
        if not follow and len(fetched.entries) < scope.capabilities.page:
            return
        if not fetched.entries:
            at = _passed(at, fetched.head)
            await scope.wait({entity: at.version}, WAIT)


def change_of(entry: Entry) -> Change:
    """Return an entry as callers see it."""
    cursor = Cursor(entry.seq, entry.stamp)
    return Change(decode(entry.body), entry.seq, cursor, moment(entry.at), entry.key)


def _passed(at: Cursor, head: Head) -> Cursor:
    """Return the cursor at the end of a log whose entries after `at` were all removed."""
    return Cursor(head.version, head.stamp) if head.version > at.version else at


def reset(entity: Entity) -> Reset:
    """Return the error for a cursor of another history."""
    return Reset(
        f"the history of the {entity.kind} {entity.id!r} is not the one you were reading: it was "
        "deleted, has expired, or was restored. Start again from the beginning"
    )
