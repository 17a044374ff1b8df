"""Rewriting a conversation: single messages, its end, or all of it.

Each is one commit, which is retried if anything was committed since the messages were read. So each
call knows what it changed, and of two that remove a message only one returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stateward.codec import MOST, encode_messages
from stateward.context.compaction import SUMMARY, kept
from stateward.errors import InvalidInput
from stateward.layers.outage.asked import ASKED, stored_asked
from stateward.layers.outage.edits import EDITS, edited
from stateward.ops import (
    Append,
    CommitsAt,
    Conflict,
    Delete,
    Entry,
    Fetch,
    Fetched,
    Head,
    Log,
    LogAt,
    Outcome,
    Replace,
    Value,
    Write,
)
from stateward.records import Appended, Change, Cursor
from stateward.state.conversation_life import Life
from stateward.state.feeds import change_of, entries_after
from stateward.state.handle import Handle
from stateward.state.refusals import deleted, refuse, stored
from stateward.state.replaced_record import numbers_of, rewritten
from stateward.state.replacements import replaced_documents


async def edit_messages(
    handle: Handle, changes: Mapping[int, Any], expect: Cursor | None
) -> list[Change]:
    """Rewrite messages by number, or remove them (None); returns the changed ones as before."""
    if not changes or any(type(n) is not int or not 1 <= n <= MOST for n in changes):
        raise InvalidInput("edit needs {number: message or None}, with numbers from 1")
    bodies: dict[int, str | None] = {
        number: None if new is None else handle.encoded((new,))[0]
        for number, new in changes.items()
    }
    life: Life | None = None
    while True:
        fetched, entries = await _numbered(handle, bodies)
        head, summary = fetched.head, fetched.documents.get(SUMMARY)
        life = _check_head(handle, expect, head, life)
        there = {entry.seq: bodies[entry.seq] for entry in entries}
        writes: tuple[Write, ...] = (Replace(there),) if there else ()
        changed = [change_of(entry) for entry in entries]
        missing = {number: bodies[number] for number in bodies if number not in there}
        if missing and head.version:
            for name, value in await replaced_documents(handle):
                also, before = rewritten(name, value, missing)
                writes, changed = (*writes, *also), [*changed, *before]
        if not writes:
            return []
        if _is_concerned(summary, head, bodies):  # also after a removal of a missing message
            writes = (*writes, Delete(SUMMARY))
        if await _committed(handle, writes, fetched) is not None:
            return sorted(changed, key=lambda change: change.version)


def _is_concerned(summary: Value | None, head: Head, edited: Mapping[int, str | None]) -> bool:
    """Whether a summary may contain text that is edited here."""
    current = kept(summary, head)
    covered = max(current.upto, current.making)
    return summary is not None and (min(edited) <= covered or None in edited.values())


async def remove_after(handle: Handle, at: Cursor, expect: Cursor | None) -> list[Change]:
    """Remove every message after a position; returns the removed ones."""
    life: Life | None = None
    while True:
        fetched = await handle.fetch(documents=(EDITS, ASKED))
        life = _check_head(handle, expect, fetched.head, life)
        entries = [entry async for entry in entries_after(handle, at, follow=False)]
        writes = (*_unasked(fetched), *await _unreplaced(handle, fetched.head, at.version))
        if entries:
            gone = Replace({entry.seq: None for entry in entries})
            writes = (gone, Delete(SUMMARY), *writes)
        if not writes or await _committed(handle, writes, fetched) is not None:
            return [change_of(entry) for entry in entries]


async def replace_all(handle: Handle, messages: Sequence[Any], expect: Cursor | None) -> Appended:
    """Replace all messages by these."""
    messages = handle.redacted(messages)
    bodies = encode_messages(messages, handle.scope.limits) if messages else ()
    life: Life | None = None
    while True:
        fetched = await handle.fetch(documents=(EDITS, ASKED))
        head = fetched.head
        life = _check_head(handle, expect, head, life)
        writes = (*_unasked(fetched), *await _unreplaced(handle, head, 0))
        if head.live:
            gone = Replace(dict.fromkeys(await _numbers(handle, head)))
            writes = (gone, Delete(SUMMARY), *writes)
        if bodies:
            writes = (*writes, Append(bodies))
        if not writes:
            return Appended("stored", head.version, Cursor(head.version, head.stamp or None))
        outcome = await _committed(handle, writes, fetched)
        if outcome is not None:
            applied = stored(outcome, handle.entity)
            if bodies:
                handle.tell(messages, applied.version)
            return Appended("stored", applied.version, Cursor(applied.version, applied.stamp))


def _unasked(fetched: Fetched) -> tuple[Write, ...]:
    """Return the writes that remove the questions that wait: they come after every message."""
    return stored_asked(()) if ASKED in fetched.documents else ()


async def _unreplaced(handle: Handle, head: Head, after: int) -> tuple[Write, ...]:
    """Return the writes that remove messages behind a number from what was replaced before."""
    writes: tuple[Write, ...] = ()
    if head.version > after:
        for name, value in await replaced_documents(handle):
            gone = [number for number in numbers_of(value) if number > after]
            writes = (*writes, *rewritten(name, value, dict.fromkeys(gone))[0])
    return writes


async def _numbers(handle: Handle, head: Head) -> Iterable[int]:
    """Return the numbers of all messages."""
    if head.version - head.base == head.live:  # none was ever removed in between
        return range(head.base + 1, head.version + 1)
    start = Cursor(head.base)
    return [entry.seq async for entry in entries_after(handle, start, follow=False)]


async def _numbered(handle: Handle, numbers: Iterable[int]) -> tuple[Fetched, list[Entry]]:
    """Read the messages with these numbers; head and documents are those of the first read."""
    scope, (first, *rest) = handle.scope, list(_spans(sorted(numbers), handle))
    fetched = await handle.fetch(first, (SUMMARY, EDITS))
    entries = list(fetched.entries)
    for start in range(0, len(rest), scope.capabilities.batch):
        part = rest[start : start + scope.capabilities.batch]
        ops = [Fetch(handle.entity, handle.owner, log) for log in part]
        for outcome in await scope.execute(ops):
            if not isinstance(outcome, Fetched):
                refuse(outcome, handle.entity)
            entries += outcome.entries
    return fetched, entries


def _spans(numbers: Sequence[int], handle: Handle) -> Iterator[Log]:
    """Yield a range to read for each run of consecutive numbers, at most a page long."""
    page = handle.scope.capabilities.page
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1 or number - first >= page:
            yield Log(first - 1, last, details=True)
            first = number
        last = number
    yield Log(first - 1, last, details=True)


def _check_head(
    handle: Handle, expect: Cursor | None, head: Head, life: Life | None
) -> Life | None:
    """Return the life of the first read; raises if it is over, or `expect` does not hold."""
    if life is not None and life.is_over(head):
        raise deleted(handle.entity)
    life = life or handle.life(head)
    if expect is None:
        return life
    stamps = (None, head.stamp or None)
    if expect.version != head.version or expect.stamp not in stamps:
        refuse(Conflict(LogAt(expect.version, expect.stamp), head), handle.entity)
    return life


async def _committed(handle: Handle, writes: tuple[Write, ...], fetched: Fetched) -> Outcome | None:
    """Commit, or return None if the thread changed or expired since the head was read."""
    head, first = fetched.head, writes[0]
    if isinstance(first, Replace):
        writes = (*writes, edited(fetched.documents.get(EDITS), head, first.entries))
    unchanged = (CommitsAt(head.commits), LogAt(head.version, head.stamp or None))
    outcome = await handle.commit(writes, unchanged)
    if isinstance(outcome, Conflict):
        return None
    stored(outcome, handle.entity)
    return outcome
