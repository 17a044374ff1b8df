"""Turns stored instead of messages: an edited question, another answer. One commit under a key.

What is replaced leaves the log, and stays in a document of the thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from stateward.codec import encode_messages
from stateward.context.compaction import SUMMARY
from stateward.errors import StateConflictError
from stateward.layers.outage.asked import ASKED, taken_in
from stateward.layers.outage.edits import EDITS, edited
from stateward.ops import (
    NOWHERE,
    Append,
    Applied,
    Check,
    CommitsAt,
    Conflict,
    Delete,
    List,
    Log,
    LogAt,
    Outcome,
    Put,
    Replace,
    Value,
    Write,
)
from stateward.records import Cursor
from stateward.state.feeds import entries_after
from stateward.state.handle import Handle
from stateward.state.receipts import note_of
from stateward.state.refusals import deleted
from stateward.state.replaced_record import REPLACED, Replaced, replaced_of, stored_replaced


async def append_instead(
    handle: Handle,
    messages: Sequence[Any],
    key: str,
    checks: tuple[Check, ...] = (),
    writes: tuple[Write, ...] = (),
    *,
    first: int | None,
    number: int | None = None,
    saw: Any = None,
) -> Outcome:
    """Append redacted messages in place of all from number `first` on, and of the one `number`.

    One commit, repeated if anything was committed since the replaced messages were read. Those from
    `first` on can be listed afterwards.
    """
    bodies = encode_messages(messages, handle.scope.limits)
    note, life = (None, None) if saw is None else note_of(saw, handle.entity, handle.owner)
    while True:
        page = handle.scope.capabilities.page  # one read: a renewal of a lease repeats the loop
        wanted = Log((number or 1) - 1, number, details=True)
        if first is not None:
            wanted = Log(first - 1, first=page, details=True)
        fetched = await handle.fetch(wanted, (EDITS, ASKED))
        head, documents = fetched.head, fetched.documents
        if life is not None and life.is_over(head):
            raise deleted(handle.entity)
        life = life or handle.life(head)
        entries = list(fetched.entries)
        if len(entries) == page:
            after = Cursor(entries[-1].seq)
            entries += [entry async for entry in entries_after(handle, after, follow=False)]
        gone = [] if first is None else entries
        numbers = {entry.seq: None for entry in entries}
        if first is not None and number is not None:
            numbers[number] = None  # of a question before them
        replaced = Replace(numbers)
        own: tuple[Write, ...] = (Append(bodies, key, note=note), *writes)
        own = (*own, *taken_in(documents.get(ASKED), key))
        if gone:
            record = stored_replaced(key, handle.scope.world.now(), gone)
            own = (*own, Put(f"{REPLACED}{head.version}", record))
        if replaced.entries:
            noted = edited(documents.get(EDITS), head, replaced.entries)
            own = (replaced, *own, noted, Delete(SUMMARY))
        unchanged: tuple[Check, ...] = (
            CommitsAt(head.commits),
            LogAt(head.version, head.stamp or None),
        )
        refused = (NOWHERE,) if first is not None and not gone else ()  # unless the key is known
        outcome = await handle.commit(own, (*checks, *unchanged, *refused))
        if isinstance(outcome, Conflict) and outcome.failed in unchanged:
            continue
        if isinstance(outcome, Conflict) and outcome.failed == NOWHERE:
            raise StateConflictError(
                f"the thread {handle.entity.id!r} has no message {first} or later to replace: it "
                f"is at version {head.version}; load it again with entries=True",
                expected=first,
                current=head.version,
            )
        if isinstance(outcome, Applied):
            handle.tell(messages, outcome.version)
        return outcome


async def list_replaced(handle: Handle) -> AsyncIterator[Replaced]:
    """Yield the turns that were replaced, oldest first."""
    await handle.fetch()  # raises for a thread of another user
    for _, value in await replaced_documents(handle):
        yield replaced_of(value)


async def replaced_documents(handle: Handle) -> list[tuple[str, Value]]:
    """Return the documents of turns that were replaced, oldest first."""
    entity = handle.entity
    wanted = List(entity.namespace, owner=handle.owner, within=entity, prefix=REPLACED)
    named = [each async for page in handle.scope.pages(wanted) for each in page.documents]
    return sorted(named, key=lambda each: int(each[0].removeprefix(REPLACED)))
