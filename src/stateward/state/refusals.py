"""Exceptions for the refusals of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from stateward.errors import (
    ConversationDeletedError,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    StateConflictError,
    StatewardError,
    StoreUnavailable,
)
from stateward.kinds import THREAD
from stateward.ops import (
    Absent,
    Applied,
    Conflict,
    DocumentAt,
    Duplicate,
    Entity,
    Fenced,
    Held,
    KeyReused,
    LogAt,
    NotDroppedSince,
    NotYours,
    Outcome,
)


@contextmanager
def applied_in_part() -> Iterator[None]:
    """Let no failure in the block say that nothing was applied: the commit before it was."""
    try:
        yield
    except StoreUnavailable as error:
        error.applied = "unknown"
        raise


def stored(outcome: Outcome, entity: Entity) -> Applied:
    """Return the commit as stored, now or by an earlier try; raises on every refusal."""
    if type(outcome) is Applied:
        return outcome
    if type(outcome) is Duplicate:
        return outcome.first
    refuse(outcome, entity)


def deleted(entity: Entity) -> ConversationDeletedError:
    """Return the error for a write that was begun before its conversation was deleted."""
    return ConversationDeletedError(
        f"the conversation was deleted, its user erased, or its retention ended, while this was in "
        f"progress ({entity.kind} {entity.id!r}); nothing was written: do not retry it, because "
        "that would bring back what was deleted"
    )


def _is_of_deleted(outcome: Outcome) -> bool:
    """Return whether a write was refused because what it was for is gone."""
    if isinstance(outcome, Fenced):
        return not outcome.head.exists
    return isinstance(outcome, Conflict) and isinstance(outcome.failed, NotDroppedSince)


def refuse(outcome: Outcome, entity: Entity) -> NoReturn:
    """Raise the exception for a refusal."""
    if entity.kind == THREAD and _is_of_deleted(outcome):
        raise deleted(entity)
    what = f"{entity.kind} {entity.id!r}"
    error: StatewardError
    match outcome:
        case NotYours():
            error = NotYoursError(
                f"the {what} does not belong to the user it was addressed with; check the id and "
                "the user, or claim() a conversation that was started without a user"
            )
        case KeyReused(key=key, version=version):
            error = KeyReusedError(
                f"the key {key!r} was already used in the {what} (at version {version}) for other "
                "messages; use a new key for a new turn"
            )
        case Conflict(failed=LogAt(version=expected), head=head):
            error = StateConflictError(
                f"the {what} is at version {head.version}, not at {expected}: another writer was "
                "first; load it again and decide again",
                expected=expected,
                current=head.version,
            )
        case Conflict(failed=DocumentAt(name=name, version=expected), values=values):
            current = values[name].version if name in values else 0
            error = StateConflictError(
                f"the document {name!r} of the {what} is at version {current}, not at {expected}: "
                "another writer was first; get it again and decide again",
                expected=expected,
                current=current,
            )
        case Conflict(failed=Absent()):
            error = StateConflictError(
                f"the {what} exists already; nothing was written", expected=None, current=what
            )
        case Conflict(failed=NotDroppedSince()):
            error = StateConflictError(
                f"the {what} was deleted, or its user erased, while this was on its way; nothing "
                "was written",
                expected=what,
                current=None,
            )
        case Conflict(failed=failed, head=head):
            error = StateConflictError(
                f"the {what} is not as expected ({failed}); its status is {head.status!r}",
                expected=failed,
                current=head.status,
            )
        case Held(remaining=remaining, head=head):
            holder = head.lease.holder if head.lease else ""
            error = LeaseHeld(
                f"the {what} is held by {holder!r} for up to {remaining:.1f} s",
                remaining=remaining,
                holder=holder,
            )
        case Fenced():
            error = LeaseLost(
                f"the lease on the {what} was released or taken over; nothing was written"
            )
        case _:
            raise AssertionError(f"no refusal: {outcome!r}")
    raise error
