"""A document's history: read back from the records in its entity's log, and kept short."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable

from msgspec.structs import replace

from stateward.errors import StatewardError
from stateward.ops import (
    Applied,
    Check,
    Conflict,
    Delete,
    Fetched,
    Log,
    LogAt,
    NotDroppedSince,
    Outcome,
    Replace,
    Write,
)
from stateward.state.handle import Handle
from stateward.state.past import (
    ROOM,
    DocumentRecord,
    Keep,
    Past,
    Plan,
    Pruning,
    bare_records,
    read_record,
)

FIRST = 32  # records to read at first

logger = logging.getLogger("stateward.documents")


async def read_past(handle: Handle, name: str, enough: Callable[[Past], bool]) -> Past:
    """The document and its past, back to where it is enough, or as far as it is kept."""
    while True:
        past = await _read(handle, name, enough)
        if past is not None:
            return past


async def _read(handle: Handle, name: str, enough: Callable[[Past], bool]) -> Past | None:
    """None: what was being read was erased and begun anew."""
    scope = handle.scope
    fetched = await handle.fetch(Log(last=FIRST, details=True), (name,))
    past = Past(name, fetched.documents.get(name), fetched.head, scope.keep, scope.world.now())
    while True:
        for entry in reversed(fetched.entries):
            past.take(read_record(entry))
        older = _older(fetched, scope.capabilities.page)
        past.exhausted = older is None
        if older is None or past.ended or enough(past):
            return past
        fetched = await handle.fetch(older)
        if fetched.head.life != past.life:
            return None


def _older(fetched: Fetched, page: int) -> Log | None:
    """What to read before this: about as much as there is room for. None: there is nothing."""
    if not fetched.count or fetched.first <= fetched.head.base + 1:
        return None
    size = len(fetched.lines) or sum(len(entry.body) for entry in fetched.entries)
    last = max(1, min(page, ROOM * fetched.count // max(1, size)))
    return Log(upto=fetched.first - 1, last=last, details=True)


async def forget_document(handle: Handle, name: str, checks: tuple[Check, ...]) -> Outcome:
    """Remove a document with all its records, in one commit, so that nothing tells of it."""
    while True:
        fetched = await handle.fetch(Log(last=FIRST, details=True))
        head, records = fetched.head, _records(handle, fetched)
        numbers = [record.seq async for record in records if record.document == name]
        writes: tuple[Write, ...] = (Delete(name),)
        if numbers:
            writes = (*writes, Replace(dict.fromkeys(numbers)))
        unchanged = LogAt(head.version, head.stamp or None)
        outcome = await handle.commit(writes, (*checks, unchanged))
        if not isinstance(outcome, Conflict) or outcome.failed != unchanged:
            return outcome


async def _records(
    handle: Handle, fetched: Fetched, *, bare: bool = False
) -> AsyncIterator[DocumentRecord]:
    """All records from the newest to the oldest, or as far as they are of one life.

    `bare` ones have neither time nor stamp, and cost a fraction. Their numbers show where none is
    missing; elsewhere they are read with all that there is.
    """
    life, upto = fetched.head.life, fetched.head.version
    while True:
        if fetched.count and not fetched.entries and upto - fetched.first + 1 != fetched.count:
            fetched = await handle.fetch(Log(upto=upto, last=fetched.count, details=True))
        if fetched.head.life != life or not fetched.count:
            return
        for record in reversed(bare_records(fetched)):
            yield record
        for entry in reversed(fetched.entries):
            yield read_record(entry)
        older = _older(fetched, handle.scope.capabilities.page)
        if older is None:
            return
        assert older.upto is not None
        upto = older.upto
        fetched = await handle.fetch(replace(older, details=False) if bare else older)


async def prune(handle: Handle, keep: Keep, applied: Applied) -> None:
    """Remove the records that are beyond what is kept, if it is time to look.

    That is when twice as many have come as were left the last time: so a write costs about one and
    a half that are read and one that is removed, however many documents there are. The head's label
    says when, for other processes. What fails is tried again later: the write that it comes after
    is stored.
    """
    try:
        await _prune(handle, keep, applied)
    except StatewardError as error:
        logger.info("history_not_pruned", extra={"error": type(error).__name__})


async def _prune(handle: Handle, keep: Keep, applied: Applied) -> None:
    prunings, entity = handle.scope.prunings, handle.entity
    head = (await handle.fetch()).head
    plan = Plan.of(head)
    if applied.version < plan.version:
        prunings.plan(entity, applied.version, plan.version)
        return
    pruning = Pruning(keep, applied.at)
    bare = not plan.is_thorough(head, applied.at)
    fetched = await handle.fetch(Log(last=FIRST, details=not bare))
    head = fetched.head
    async for record in _records(handle, fetched, bare=bare):
        pruning.take(record)
    writes, checks, plan = pruning.writes(head, plan if bare else None)
    # What was erased and begun anew meanwhile has records of the same numbers.
    await handle.commit(writes, (NotDroppedSince(applied.at), *checks))
    prunings.plan(entity, head.version, plan.version)
