"""The history of a document: read from the records in its entity's log, and pruned."""

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
from stateward.state.document_record import DocumentRecord, bare_records, read_record
from stateward.state.handle import Handle
from stateward.state.past import Keep, Past
from stateward.state.prune_plan import ROOM, Plan, Pruning

FIRST = 32  # records to read first

logger = logging.getLogger("stateward.documents")


async def read_past(handle: Handle, name: str, enough: Callable[[Past], bool]) -> Past:
    """Return a document's past, back to where `enough` is true, or as far as it is kept."""
    while True:
        past = await _read(handle, name, enough)
        if past is not None:
            return past


async def _read(handle: Handle, name: str, enough: Callable[[Past], bool]) -> Past | None:
    """Read the past once; None if its entity was erased and created again meanwhile."""
    scope = handle.scope
    fetched = await handle.fetch(Log(last=FIRST, details=True), (name,))
    head, value = fetched.head, fetched.documents.get(name)
    plan = Plan.of(head)
    past = Past(name, value, head, scope.keep, scope.world.now(), (plan.since, plan.most))
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
    """Return the read of older records that fit into `ROOM`; None if there are none."""
    if not fetched.count or fetched.first <= fetched.head.base + 1:
        return None
    size = len(fetched.lines) or sum(len(entry.body) for entry in fetched.entries)
    last = max(1, min(page, ROOM * fetched.count // max(1, size)))
    return Log(upto=fetched.first - 1, last=last, details=True)


async def forget_document(handle: Handle, name: str, checks: tuple[Check, ...]) -> Outcome:
    """Remove a document with all its records in one commit."""
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
    """Yield the records of one life, from the newest to the oldest.

    With `bare`, records are read without time and stamp, which is much cheaper; where numbers are
    missing between them, they are read again in full.
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
    """Remove the records that exceed `keep`, if enough were written since the last time.

    That is twice as many as were left then, so that a write costs about one and a half records read
    and one removed, however many documents there are. The head's label has the version at which to
    prune, for other processes. A failure is logged and repeated later: the write before is stored.
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
    writes, checks, plan = pruning.writes(head, plan, bare=bare)
    # An entity that was erased and created again has records of the same numbers.
    await handle.commit(writes, (NotDroppedSince(applied.at), *checks))
    prunings.plan(entity, head.version, plan.version)
