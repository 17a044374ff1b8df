"""The documents of a workflow, and how a listing shows it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from stateward.codec import check_id, decode
from stateward.errors import InvalidInput
from stateward.ops import Delete, Found, Put
from stateward.records import Awaited, WorkflowInfo, moment
from stateward.state.work import error_text

ACTIVE, COMPLETED, FAILED, CANCELLED = "active", "completed", "failed", "cancelled"
META, STATE, STEP, ERROR, DEATHS = "meta", "state", "step", "error", "deaths"
SNAPSHOT = "snapshot"  # derived from the log: without it, the log is read from its beginning
RESULT, WAITS, TROUBLE = "result", "waits", "trouble"
READING = (META, STATE, STEP, ERROR)
TELLING = (*READING, WAITS, TROUBLE, DEATHS)  # read by `workflow_info`
DEATHS_FORGIVEN = 10  # drivers in a row that may die; one more, and the workflow fails
# Each driver puts it on taking the lease and deletes it on giving the lease back or, after deaths,
# with its first record. So its version is the number of drivers in a row that have not given the
# lease back and made no progress.
SOMEBODY_DRIVES, NOBODY_DRIVES = Put(DEATHS, "{}"), Delete(DEATHS)

Machine = Mapping[str, tuple[str, ...] | list[str]]


def check_machine(machine: Machine | None) -> dict[str, tuple[str, ...]]:
    """Return a declared machine: each state with its successors; the first one is the start."""
    if machine is None:
        return {}
    states = {check_id(at, "a step"): tuple(ways) for at, ways in machine.items()}
    for at, ways in states.items():
        for way in ways:
            if way not in states:
                raise InvalidInput(f"the machine leads from {at!r} to {way!r}, which it lacks")
    return states


def workflow_info(found: Found, cursor: str = "", now: float | None = None) -> WorkflowInfo:
    """Return a workflow as listed; complete if `TELLING` was read, at about `now`."""
    documents = found.documents
    step = decode(documents[STEP].json)["at"] if STEP in documents else None
    error = decode(documents[ERROR].json) if ERROR in documents else None
    trouble = decode(documents[TROUBLE].json) if TROUBLE in documents else error or {}
    return WorkflowInfo(
        found.entity.id,
        decode(documents[META].json)["kind"] if META in documents else "",
        found.head.owner or None,
        found.head.status,
        step,
        decode(documents[STATE].json) if STATE in documents else {},
        moment(found.head.updated),
        error_text(error) if error else None,
        cursor,
        () if now is None else _awaited(found, now),
        found.head.lease.holder if found.head.lease is not None else None,
        error_text(trouble) if trouble else None,
        trouble.get("step"),
        trouble.get("attempt", 0),
    )


def _awaited(found: Found, now: float) -> tuple[Awaited, ...]:
    head, documents = found.head, found.documents
    if head.status != ACTIVE or (head.lease is not None and now < head.lease.until):
        return ()
    if head.lease is not None:
        return (Awaited("driver", "", moment(head.lease.until)),)
    if WAITS not in documents or DEATHS in documents or (head.due and head.due <= head.updated):
        return (Awaited("driver", "", moment(head.updated)),)
    return tuple(
        Awaited(
            wait["what"],
            wait["name"],
            moment(wait["since"]),
            None if wait["until"] is None else moment(wait["until"]),
        )
        for wait in decode(documents[WAITS].json)["waits"]
    )
