"""How long a thread is kept, said after it was begun; pins and archives, which keep it anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stateward.codec import decode, encode
from stateward.errors import InvalidInput
from stateward.ops import CommitsAt, Conflict, Delete, Head, LogAt, Put, SetHead, Value, Write
from stateward.state.about import ABOUT, archived, unarchived
from stateward.state.handle import PINNED, Handle
from stateward.state.refusals import stored

Documents = Mapping[str, Value]
Decide = Callable[[Head, Documents], tuple[Write, ...]]


async def set_retention(handle: Handle, retain: float | None) -> None:
    """Keep it for so many seconds after its last message, counting from now; None: for ever."""

    def decide(head: Head, found: Documents) -> tuple[Write, ...]:
        if PINNED in found:  # it counts from when it is unpinned
            return (_pin(retain),)
        return (SetHead(retain=retain or 0.0),)

    await _decided(handle, decide)


async def pin(handle: Handle) -> None:
    """Keep it until it is unpinned."""

    await _decided(handle, _pinned)


async def unpin(handle: Handle) -> None:
    """Keep it as long as was last set, counting from now."""

    await _decided(handle, _unpinned)


async def archive(handle: Handle) -> None:
    """Keep it, and leave it out of the listings of what is not archived."""

    def decide(head: Head, found: Documents) -> tuple[Write, ...]:
        about = _about(found)
        if about.get("archived"):
            return ()
        return (*_pinned(head, found), Put(ABOUT, archived(about, PINNED in found)))

    await _decided(handle, decide)


async def unarchive(handle: Handle) -> None:
    """As it was before; its retention counts from now."""

    def decide(head: Head, found: Documents) -> tuple[Write, ...]:
        about = _about(found)
        if not about.get("archived"):
            return ()
        unpinned = () if about["pinned_before"] else _unpinned(head, found)
        return (*unpinned, Put(ABOUT, unarchived(about)))

    await _decided(handle, decide)


def _about(found: Documents) -> dict[str, Any]:
    return decode(found[ABOUT].json) if ABOUT in found else {}


def _pinned(head: Head, found: Documents) -> tuple[Write, ...]:
    return () if PINNED in found else (_pin(head.retain), SetHead(retain=0.0))


def _unpinned(head: Head, found: Documents) -> tuple[Write, ...]:
    if PINNED not in found:
        return ()
    return (Delete(PINNED), SetHead(retain=decode(found[PINNED].json)["retain"] or 0.0))


def _pin(retain: float | None) -> Put:
    return Put(PINNED, encode({"retain": retain}, "the pin"))


async def _decided(handle: Handle, decide: Decide) -> None:
    """Commit what follows from how it is now; one that does not exist is not begun by that."""
    while True:
        fetched = await handle.fetch(documents=(PINNED, ABOUT))
        head = fetched.head
        if not head.exists:
            raise InvalidInput(
                f"there is no thread {handle.entity.id!r} to keep: it was deleted, has expired, "
                "or was not started. Set it when you start the thread: store.thread(id, retain=...)"
            )
        writes = decide(head, fetched.documents)
        if not writes:
            return
        as_seen = (CommitsAt(head.commits), LogAt(head.version, head.stamp or None))
        outcome = await handle.commit(writes, as_seen)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            return
