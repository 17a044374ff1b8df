"""How long a thread is kept, said after it was begun; and pins, which keep it whatever is said."""

from __future__ import annotations

from collections.abc import Callable

from stateward.codec import decode, encode
from stateward.errors import InvalidInput
from stateward.ops import CommitsAt, Conflict, Delete, Head, LogAt, Put, SetHead, Value, Write
from stateward.state.handle import PINNED, Handle
from stateward.state.refusals import stored

Decide = Callable[[Head, Value | None], tuple[Write, ...]]


async def set_retention(handle: Handle, retain: float | None) -> None:
    """Keep it for so many seconds after its last message, counted anew from now; None: for ever."""

    def decide(head: Head, pinned: Value | None) -> tuple[Write, ...]:
        if pinned is not None:  # it counts from when it is unpinned
            return (_pin(retain),)
        return (SetHead(retain=retain or 0.0),)

    await _decided(handle, decide)


async def pin(handle: Handle) -> None:
    """Keep it until it is unpinned."""

    def decide(head: Head, pinned: Value | None) -> tuple[Write, ...]:
        return () if pinned is not None else (_pin(head.retain), SetHead(retain=0.0))

    await _decided(handle, decide)


async def unpin(handle: Handle) -> None:
    """Keep it as long as was said before, or meanwhile, counted anew from now."""

    def decide(head: Head, pinned: Value | None) -> tuple[Write, ...]:
        if pinned is None:
            return ()
        return (Delete(PINNED), SetHead(retain=decode(pinned.json)["retain"] or 0.0))

    await _decided(handle, decide)


def _pin(retain: float | None) -> Put:
    return Put(PINNED, encode({"retain": retain}, "the pin"))


async def _decided(handle: Handle, decide: Decide) -> None:
    """Commit what follows from how it is now; one that does not exist is not begun by that."""
    while True:
        fetched = await handle.fetch(documents=(PINNED,))
        head = fetched.head
        if not head.exists:
            raise InvalidInput(
                f"there is no thread {handle.entity.id!r} to keep: it was deleted, has expired, or "
                "was not begun. Say how long when you begin it: store.thread(id, retain=...)"
            )
        writes = decide(head, fetched.documents.get(PINNED))
        if not writes:
            return
        as_seen = (CommitsAt(head.commits), LogAt(head.version, head.stamp or None))
        outcome = await handle.commit(writes, as_seen)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            return
