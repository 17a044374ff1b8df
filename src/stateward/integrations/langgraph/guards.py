"""Checks of a commit against its checkpoint, and the errors for a missing checkpoint."""

from __future__ import annotations

from typing import NoReturn

from stateward.codec import decode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import CLOCK
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import ids_of
from stateward.integrations.langgraph.records import (
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
)
from stateward.ops import Conflict, DocumentAt, Head, NotDroppedSince

LOST = "the next one was not stored"


def stands(memory: CheckpointMemory, thread: GraphThread, record: CheckpointRecord) -> DocumentAt:
    """Return the check that a checkpoint's document is in the state that this process expects."""
    segment = memory.segment(thread)
    if segment is not None and names.checkpoints(thread.ns) + segment.first == record.document:
        return DocumentAt(record.document, segment.version)
    return DocumentAt(record.document, record.version)


def is_in(id: str | None, conflict: Conflict) -> bool:
    """Return whether a checkpoint is still in a document of another version."""
    assert isinstance(conflict.failed, DocumentAt)
    now = conflict.values.get(conflict.failed.name)
    return now is not None and id in ids_of(decode(now.json))


def refuse_put(thread: GraphThread, record: CheckpointRecord, conflict: Conflict) -> NoReturn:
    failed = conflict.failed
    if isinstance(failed, DocumentAt) and failed.name == thread.head:
        now = CheckpointHead.of(conflict.values.get(thread.head))
        raise StateConflictError(
            f"the thread {thread.entity.id!r} was continued by another run: its newest "
            f"checkpoint is {None if now is None else now.id!r}, and this continues "
            f"{record.parent!r}; it was not stored: invoke the graph again, or keep both with "
            "StatewardSaver(..., on_conflict='fork')",
            expected=record.parent,
            current=None if now is None else now.id,
        )
    raise gone(thread, record.parent, LOST)


def not_dropped(
    memory: CheckpointMemory, thread: GraphThread, id: str, lost: str
) -> NotDroppedSince:
    """Return the check for data of a checkpoint that was just found to be missing.

    The checkpoint may still arrive, but data of a dropped thread must not be restored.
    """
    dropped = (memory.head(thread) or Head()).dropped
    made = names.ticks_of(id)
    if made is not None and names.time_of(made).timestamp() <= dropped:
        memory.was_gone(thread, id)
        raise gone(thread, id, lost)
    return NotDroppedSince(dropped + CLOCK)


def gone(thread: GraphThread, id: str | None, lost: str) -> StateConflictError:
    return StateConflictError(
        f"the checkpoint {id!r} of the thread {thread.entity.id!r} is gone: the thread was "
        f"deleted or pruned during this run; {lost}",
        expected=id,
        current=None,
    )
