"""Appends under a key of which the first one counts, whatever the others would have stored."""

from __future__ import annotations

from typing import Any

from stateward.codec import AnyMessage, decode
from stateward.errors import KeyReusedError
from stateward.layers.outage.answers import Suppressed
from stateward.ops import Check, Entry, KeyReused, Log, Outcome, Write
from stateward.records import Appended, Cursor
from stateward.state.appended import appended
from stateward.state.handle import Handle

Message = dict[str, Any]

FIRST_ENTRIES = 8  # enough to read most turns back at once


async def append_first(
    handle: Handle,
    messages: tuple[AnyMessage, ...],
    key: str,
    checks: tuple[Check, ...] = (),
    writes: tuple[Write, ...] = (),
    *,
    keep: bool,
    saw: Any = None,
) -> Appended:
    """Append, or return the messages stored first under the key."""
    redacted = handle.redacted(messages)
    outcome = await handle.append(
        redacted, key, checks, writes, keep=keep, takes_first=True, saw=saw
    )
    return await first_stored(handle, outcome, redacted)


async def first_stored(
    handle: Handle, outcome: Outcome | Suppressed, messages: tuple[Message, ...]
) -> Appended:
    """Return the record of an append of these messages, or of the first one under its key."""
    if type(outcome) is KeyReused:
        return await first_append(handle, outcome)
    if isinstance(outcome, Suppressed):
        return Appended(outcome.status, 0, Cursor(0), messages)
    return appended(outcome, handle.entity, messages)


async def first_append(handle: Handle, refused: KeyReused) -> Appended:
    """Read the messages stored first under the key; raises if they were removed since."""
    entries: list[Entry] = []
    upto, size = refused.version, FIRST_ENTRIES
    while True:
        page = (await handle.fetch(Log(upto=upto, last=size, details=True))).entries
        entries = [*page, *entries]
        if len(page) < size or page[0].stamp != entries[-1].stamp:
            break
        upto, size = page[0].seq - 1, handle.scope.capabilities.page
    if not entries or (entries[-1].seq, entries[-1].key) != (refused.version, refused.key):
        raise KeyReusedError(
            f"the request {refused.key!r} was answered in the thread {handle.entity.id!r} before, "
            "and the answer has been removed since; use a new key to ask again"
        )
    cursor = Cursor(refused.version, entries[-1].stamp)
    messages = tuple(decode(entry.body) for entry in entries if entry.stamp == cursor.stamp)
    return Appended("duplicate", refused.version, cursor, messages)
