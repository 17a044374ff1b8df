"""The declared state machine of a workflow, moved by compare-and-swap."""

from __future__ import annotations

from typing import Any

from stateward.codec import decode, encode
from stateward.errors import (
    InvalidInput,
    StateConflictError,
    StatewardError,
    WorkflowCancelled,
    WorkflowFinished,
)
from stateward.ops import Append, Check, Entity, Head, Put, StatusIn
from stateward.state.handle import Handle
from stateward.state.stored_document import document_at
from stateward.state.workflow_record import ACTIVE, CANCELLED, META, STEP


async def move(
    handle: Handle,
    to: str,
    expect: str | None = None,
    step_id: str | None = None,
    checks: tuple[Check, ...] = (),
) -> str:
    """Move the machine, with `step_id` as a step of the driver; return its previous state."""
    key = None if step_id is None else f"step:{step_id}"
    id = handle.entity.id
    while True:
        fetched = await handle.fetch(documents=(META, STEP))
        if fetched.head.status != ACTIVE:
            raise not_active(handle.entity, fetched.head)
        machine = decode(fetched.documents[META].json)["machine"]
        if STEP not in fetched.documents:
            raise InvalidInput(
                f"the workflow {id!r} declares no machine; pass machine= when you start it"
            )
        step = fetched.documents[STEP]
        at = decode(step.json)["at"]
        if expect is not None and at != expect:
            raise StateConflictError(
                f"the workflow {id!r} is at {at!r}, not at {expect!r}: it was moved elsewhere",
                expected=expect,
                current=at,
            )
        if to not in machine.get(at, ()):
            states = ", ".join(repr(state) for state in machine.get(at, ())) or "nowhere"
            raise InvalidInput(f"from {at!r} the workflow {id!r} can go to: {states}")
        record: dict[str, Any] = {"transition": [at, to]}
        if step_id is not None:
            record |= {"step": step_id, "value": at}
        moved = Put(STEP, encode({"at": to}, "the step"))
        logged = Append((encode(record, "the transition"),), key)
        unchanged = (*checks, StatusIn((ACTIVE,)), document_at(STEP, step))
        if await handle.commit_if(unchanged, moved, logged):
            return str(at)


def not_active(entity: Entity, head: Head) -> StatewardError:
    """Return the error for a workflow that is not active."""
    if not head.exists:
        return missing(entity)
    if head.status == CANCELLED:
        return WorkflowCancelled(f"the workflow {entity.id!r} was cancelled")
    return WorkflowFinished(f"the workflow {entity.id!r} has already {head.status}")


def missing(entity: Entity) -> InvalidInput:
    return InvalidInput(
        f"there is no workflow {entity.id!r}; start it with store.workflow(id, kind=...)"
    )
