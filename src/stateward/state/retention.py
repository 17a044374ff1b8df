"""Retention of an existing thread, and pins and archives, which override it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stateward.codec import decode, encode
from stateward.errors import InvalidInput
from stateward.ops import CommitsAt, Delete, Head, LogAt, Put, SetHead, Value, Write
from stateward.state.about import ABOUT, archived, unarchived
from stateward.state.effects import keep_effects
from stateward.state.handle import PINNED, Handle

Documents = Mapping[str, Value]
Decide = Callable[[Head, Documents], tuple[Write, ...]]


async def set_retention(handle: Handle, retain: float | None) -> None:
    """Set the seconds a thread is kept after its last message, from now; None: for ever."""

    def decide(head: Head, documents: Documents) -> tuple[Write, ...]:
        if PINNED in documents:  # the retention applies once it is unpinned
            return (_pin(retain),)
        return (SetHead(retain=retain or 0.0),)

    await _decided(handle, decide)


async def pin(handle: Handle) -> None:
    """Keep a thread until it is unpinned; an archived one also after it is unarchived."""

    def decide(head: Head, documents: Documents) -> tuple[Write, ...]:
        return _in_archive(documents, pinned=True) or _pinned(head, documents)

    await _decided(handle, decide)


async def unpin(handle: Handle) -> None:
    """End a pin; the retention that was set last applies, counted from now.

    That of an archived thread applies once it is unarchived.
    """

    def decide(head: Head, documents: Documents) -> tuple[Write, ...]:
        return _in_archive(documents, pinned=False) or _unpinned(head, documents)

    await _decided(handle, decide)


async def archive(handle: Handle) -> None:
    """Pin a thread, and leave it out of the default listings."""

    def decide(head: Head, documents: Documents) -> tuple[Write, ...]:
        about = _about(documents)
        if about.get("archived"):
            return ()
        return (*_pinned(head, documents), Put(ABOUT, archived(about, PINNED in documents)))

    await _decided(handle, decide)


async def unarchive(handle: Handle) -> None:
    """End an archive; unpin the thread unless it was pinned before."""

    def decide(head: Head, documents: Documents) -> tuple[Write, ...]:
        about = _about(documents)
        if not about.get("archived"):
            return ()
        unpinned = () if about["pinned_before"] else _unpinned(head, documents)
        return (*unpinned, Put(ABOUT, unarchived(about)))

    await _decided(handle, decide)


def _in_archive(documents: Documents, *, pinned: bool) -> tuple[Write, ...]:
    """Return the write that notes whether an archived thread is pinned besides; else nothing."""
    about = _about(documents)
    return (Put(ABOUT, archived(about, pinned)),) if about.get("archived") else ()


def _about(documents: Documents) -> dict[str, Any]:
    return decode(documents[ABOUT].json) if ABOUT in documents else {}


def _pinned(head: Head, documents: Documents) -> tuple[Write, ...]:
    return () if PINNED in documents else (_pin(head.retain), SetHead(retain=0.0))


def _unpinned(head: Head, documents: Documents) -> tuple[Write, ...]:
    if PINNED not in documents:
        return ()
    return (Delete(PINNED), SetHead(retain=decode(documents[PINNED].json)["retain"] or 0.0))


def _pin(retain: float | None) -> Put:
    return Put(PINNED, encode({"retain": retain}, "the pin"))


async def _decided(handle: Handle, decide: Decide) -> None:
    """Commit the writes that `decide` returns for the current state of an existing thread."""
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
        if await handle.commit_if(as_seen, *writes):
            for write in writes:
                if isinstance(write, SetHead):  # its effects are kept as long
                    await keep_effects(handle.scope, handle.entity, write.retain)
            return
