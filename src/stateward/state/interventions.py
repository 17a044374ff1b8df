"""Interventions in workflows: cancel, retry and fork, with the effects on children.

A workflow is cancelled by one commit on the condition that it is still active; of this commit and a
concurrent one that completes, fails or parks the workflow, only one succeeds. Then its open
questions and children are closed: `loose_ends`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.codec import decode, encode
from stateward.errors import InvalidInput, WorkflowFinished
from stateward.kinds import WORKFLOW
from stateward.ops import (
    Absent,
    Append,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Head,
    Held,
    Put,
    SetHead,
    StatusIn,
    Unheld,
    Write,
)
from stateward.records import Cursor
from stateward.state.dependents import delete_with_dependents, keep_dependents, loose_ends
from stateward.state.effects import drop_effects, retry_effect
from stateward.state.feeds import entries_after
from stateward.state.forks import declare_fork
from stateward.state.handle import Handle
from stateward.state.intervention_record import UNBORN, cancelled, copied_documents, step_or_wait
from stateward.state.loose_ends import OPEN
from stateward.state.machine import missing, not_active
from stateward.state.questions import withdraw
from stateward.state.refusals import stored
from stateward.state.scope import Scope
from stateward.state.stored_document import document_at
from stateward.state.workflow_record import (
    ACTIVE,
    CANCELLED,
    ERROR,
    FAILED,
    META,
    NOBODY_DRIVES,
    TROUBLE,
)


async def cancel(handle: Handle, reason: str) -> bool:
    """End an active workflow, and its children; return False if it was cancelled already."""
    outcome = await handle.commit(cancelled(reason), (StatusIn((ACTIVE,)),))
    repeated = isinstance(outcome, Conflict) and outcome.head.status == CANCELLED
    if isinstance(outcome, Conflict) and not repeated:
        raise not_active(handle.entity, outcome.head)
    if not repeated:
        stored(outcome, handle.entity)
    await tie_up(handle)
    return not repeated


async def tie_up(handle: Handle) -> None:
    """Close what an ended workflow has left open; then it is no longer due.

    Withdraws its questions, cancels its children if it was cancelled, and notifies its parent. Any
    process may repeat this.
    """
    fetched = await handle.fetch(documents=(META, OPEN))
    head, scope = fetched.head, handle.scope
    if not head.exists or head.status == ACTIVE:
        return
    meta = decode(fetched.documents[META].json)
    loose, retain = loose_ends(fetched), meta.get("retain")
    for question in loose.questions.values():
        await withdraw(scope, question)
    if head.status == CANCELLED:
        for child in loose.children.values():
            await _cancel_child(handle, child, head.owner, retain)
    if "parent" in meta and await _tell_parent(scope, meta["parent"], handle.entity.id, head):
        retain = None  # it is kept until its parent has ended: see `dependents`
    if retain is not None:
        await keep_dependents(handle, loose, retain)
    end = SetHead(due=0, retain=retain)
    outcome = await handle.commit((end,), (Unheld(), StatusIn((head.status,))))
    if isinstance(outcome, Held):  # by a driver that does not know yet and may open something
        later = SetHead(due_in=outcome.remaining)
        await handle.commit_if((StatusIn((head.status,)),), later)
    elif not isinstance(outcome, Conflict):  # otherwise it was retried meanwhile
        stored(outcome, handle.entity)


async def _cancel_child(
    parent: Handle, child: dict[str, Any], owner: str, retain: float | None
) -> None:
    """Cancel a child, also one not started yet: a later start then finds it cancelled."""
    scope = parent.scope
    handle = Handle(scope, scope.entity(WORKFLOW, child["id"]), owner, retain)
    reason = f"its parent {parent.entity.id!r} was cancelled"
    meta = {"kind": child["kind"], "input": None, "machine": {}, "parent": parent.entity.id}
    meta[UNBORN] = True
    head, error = SetHead(status=CANCELLED, label=child["kind"]), cancelled(reason)[-1]
    begun = (head, Put(META, encode(meta, "the child")), error)
    if not await handle.commit_if((Absent(),), *begun):
        try:
            await cancel(handle, reason)
        except WorkflowFinished:
            pass  # it has ended meanwhile


async def _tell_parent(scope: Scope, parent: str, child: str, head: Head) -> bool:
    """Make the parent due, so that it reads the child's outcome; return False if it has ended."""
    handle = Handle(scope, scope.entity(WORKFLOW, parent))
    notice = Append((encode({"child": child}, "the child"),), f"child:{head.version}:{child}")
    return await handle.commit_if((StatusIn((ACTIVE,)),), notice, SetHead(due_in=0))


async def retry(handle: Handle) -> bool:
    """Continue a failed or cancelled workflow from where it was; return False if it is active.

    Removes the records of the failures that ended it; all other records stay. Raises `LeaseHeld` if
    its driver has not noticed yet that it was cancelled.
    """
    while True:
        fetched = await handle.fetch(documents=(META, ERROR, OPEN))
        head, entity = fetched.head, handle.entity
        if not head.exists:
            raise missing(entity)
        if head.status == ACTIVE:
            return False
        if head.status not in (FAILED, CANCELLED):
            raise not_active(entity, head)
        meta = decode(fetched.documents[META].json)
        if meta.get(UNBORN):
            raise InvalidInput(
                f"the workflow {entity.id!r} was cancelled before it was started; retry its parent"
            )
        error = fetched.documents[ERROR]
        loose, why = loose_ends(fetched), decode(error.json)
        if meta.get("retain") is not None:
            await keep_dependents(handle, loose, 0.0)
        failed = why.get("steps", [])
        for step, child in {**loose.children, **loose.ended}.items():
            if step in loose.children or step in failed:
                await _retry_child(handle, child, head.owner)
        for step in {*failed, *why.get("unrecorded", [])}:
            await retry_effect(handle, step)
        loose.questions.clear()  # withdrawn at the end: a retry asks new ones
        retried = {"retried": failed}
        if await handle.commit_if(
            (Unheld(), StatusIn((head.status,)), document_at(ERROR, error)),
            SetHead(status=ACTIVE, due_in=0, retain=0.0),
            Append((encode(retried, "the retry"),)),
            Delete(ERROR),
            Delete(TROUBLE),
            loose.put if loose else Delete(OPEN),
            NOBODY_DRIVES,
        ):
            return True


async def _retry_child(parent: Handle, child: dict[str, Any], owner: str) -> None:
    """Retry a failed child before its parent, which would otherwise read the old failure."""
    scope = parent.scope
    handle = Handle(scope, scope.entity(WORKFLOW, child["id"]), owner)
    fetched = await handle.fetch(documents=(META,))
    if fetched.head.status not in (FAILED, CANCELLED):
        return
    if decode(fetched.documents[META].json).get(UNBORN):
        stored(await handle.commit((Drop(),)), handle.entity)
        return
    try:
        await retry(handle)
    except WorkflowFinished:
        pass  # another caller was faster


async def fork(handle: Handle, at_step: str, id: str) -> None:
    """Create another workflow with everything that this one had recorded before a step.

    An erasure of its user meanwhile forbids the copy: see `forks.py`.
    """
    permitted = await declare_fork(replace(handle, owner=await _owner(handle)), id)
    fetched = await handle.fetch(all_documents=True)
    head, scope = fetched.head, handle.scope
    if not head.exists:
        raise missing(handle.entity)
    entries = entries_after(handle, Cursor(0), follow=False)
    records: list[dict[str, Any]] = [decode(entry.body) async for entry in entries]
    end = next((n for n, record in enumerate(records) if step_or_wait(record) == at_step), None)
    if end is None:
        names = dict.fromkeys(repr(name) for record in records if (name := step_or_wait(record)))
        raise InvalidInput(
            f"the workflow {handle.entity.id!r} has recorded no {at_step!r}, but: "
            f"{', '.join(names) or 'nothing'}"
        )
    copied = records[:end]
    meta = decode(fetched.documents[META].json)
    meta.pop("parent", None)
    documents = copied_documents(fetched, meta["machine"], copied)
    documents[META] = encode(meta, "the input")
    writes: list[Write] = [SetHead(status=ACTIVE, label=meta["kind"], due_in=0)]
    writes += (Put(name, text) for name, text in documents.items())
    if copied:
        writes.append(Append(tuple(encode(record, "the record") for record in copied)))
    copy = Handle(scope, scope.entity(WORKFLOW, id), head.owner)
    stored(await copy.commit(tuple(writes), permitted), copy.entity)


async def _owner(handle: Handle) -> str:
    head = (await handle.fetch()).head
    if not head.exists:
        raise missing(handle.entity)
    return head.owner


async def delete(handle: Handle) -> None:
    """Remove a workflow with what hangs on it; one with something open is cancelled first."""
    outcome = await handle.commit((Drop(),), (DocumentAt(OPEN, 0),))
    if not isinstance(outcome, Conflict):
        stored(outcome, handle.entity)
        await drop_effects(handle.scope, handle.entity)
        return
    if outcome.head.status == ACTIVE:
        await cancel(handle, "it was deleted")
    else:
        await tie_up(handle)
    await delete_with_dependents(handle, loose_ends(await handle.fetch(documents=(OPEN,))))
