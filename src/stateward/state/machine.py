"""The declared machine of a workflow: moved along by compare-and-swap."""

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
from stateward.ops import Append, Check, Conflict, DocumentAt, Entity, Head, Put, StatusIn
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.run_record import ACTIVE, CANCELLED, META, STEP


async def move(
    handle: Handle,
    to: str,
    expect: str | None = None,
    step_id: str | None = None,
    checks: tuple[Check, ...] = (),
) -> str:
    """Where it was before. Recorded as a step of the driver's if it has an id."""
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
            ways = ", ".join(repr(way) for way in machine.get(at, ())) or "nowhere"
            raise InvalidInput(f"from {at!r} the workflow {id!r} can go to: {ways}")
        record: dict[str, Any] = {"transition": [at, to]}
        if step_id is not None:
            record |= {"step": step_id, "value": at}
        outcome = await handle.commit(
            (
                Put(STEP, encode({"at": to}, "the step")),
                Append((encode(record, "the transition"),), key),
            ),
            (*checks, StatusIn((ACTIVE,)), DocumentAt(STEP, step.version, step.stamp)),
        )
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            return str(at)


def not_active(entity: Entity, head: Head) -> StatewardError:
    """Why nothing can be told to a workflow."""
    if not head.exists:
        return missing(entity)
    if head.status == CANCELLED:
        return WorkflowCancelled(f"the workflow {entity.id!r} was cancelled")
    return WorkflowFinished(f"the workflow {entity.id!r} has already {head.status}")


def missing(entity: Entity) -> InvalidInput:
    return InvalidInput(
        f"there is no workflow {entity.id!r}; start it with store.workflow(id, kind=...)"
    )
