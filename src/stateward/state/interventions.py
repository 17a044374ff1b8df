"""Workflows helped from outside: cancelled, retried and forked, and what becomes of children.

A workflow is cancelled by one commit, if it is still active: whoever completes, fails or parks it
at the same time meets that commit or is met by it. Then its loose ends are tied up: `loose_ends`.
"""

from __future__ import annotations

from typing import Any

from stateward.codec import decode, encode
from stateward.errors import InvalidInput, WorkflowFinished
from stateward.kinds import FORK, WORKFLOW
from stateward.ops import (
    Absent,
    Append,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Fetched,
    Held,
    NotDroppedSince,
    Put,
    SetHead,
    StatusIn,
    Unheld,
    Write,
)
from stateward.records import Cursor
from stateward.state.feeds import entries_after
from stateward.state.forks import RETAIN
from stateward.state.handle import Handle
from stateward.state.intervention_record import (
    UNBORN,
    asked_for,
    cancelled,
    copied_documents,
)
from stateward.state.loose_ends import OPEN, LooseEnds
from stateward.state.machine import missing, not_active
from stateward.state.questions import withdraw
from stateward.state.refusals import stored
from stateward.state.run_record import (
    ACTIVE,
    CANCELLED,
    ERROR,
    FAILED,
    META,
    NOBODY_DRIVES,
    TROUBLE,
)
from stateward.state.scope import Scope
from stateward.state.shared_message import FORKED_FROM


async def cancel(handle: Handle, reason: str) -> bool:
    """End an active workflow, and its children; False if it was cancelled already."""
    outcome = await handle.commit(cancelled(reason), (StatusIn((ACTIVE,)),))
    new = not isinstance(outcome, Conflict)
    if isinstance(outcome, Conflict):
        if outcome.head.status != CANCELLED:
            raise not_active(handle.entity, outcome.head)
    else:
        stored(outcome, handle.entity)
    await tie_up(handle)
    return new


async def tie_up(handle: Handle) -> None:
    """What is left to do for one that has come to its end: then it is no longer due.

    Its questions are withdrawn, the children of one that was cancelled are cancelled too, and its
    parent is told. May be done again, by anybody.
    """
    fetched = await handle.fetch(documents=(META, OPEN))
    head, scope = fetched.head, handle.scope
    if not head.exists or head.status == ACTIVE:
        return
    meta = decode(fetched.documents[META].json)
    loose = _loose_ends(fetched)
    for question in loose.questions.values():
        await withdraw(scope, question)
    if head.status == CANCELLED:
        for child in loose.children.values():
            await _cancel_child(handle, child, head.owner, meta.get("retain"))
    if "parent" in meta:
        await _tell_parent(scope, meta["parent"], handle.entity.id, head.version)
    end = SetHead(due=0, retain=meta.get("retain"))
    outcome = await handle.commit((end,), (Unheld(), StatusIn((head.status,))))
    if isinstance(outcome, Held):  # by a driver that does not know yet, and may open something
        again = SetHead(due_in=outcome.remaining)
        outcome = await handle.commit((again,), (StatusIn((head.status,)),))
    if not isinstance(outcome, Conflict):  # else it was retried meanwhile
        stored(outcome, handle.entity)


async def _cancel_child(
    parent: Handle, child: dict[str, Any], owner: str, retain: float | None
) -> None:
    """Also one that is not begun yet: whoever is about to begin it finds it cancelled."""
    scope = parent.scope
    handle = Handle(scope, scope.entity(WORKFLOW, child["id"]), owner, retain)
    reason = f"its parent {parent.entity.id!r} was cancelled"
    meta = {"kind": child["kind"], "input": None, "machine": {}, UNBORN: True}
    head, error = SetHead(status=CANCELLED, label=child["kind"]), cancelled(reason)[-1]
    begun = (head, Put(META, encode(meta, "the child")), error)
    outcome = await handle.commit(begun, (Absent(),))
    if isinstance(outcome, Conflict):
        try:
            await cancel(handle, reason)
        except WorkflowFinished:
            pass  # it was faster
    else:
        stored(outcome, handle.entity)


async def _tell_parent(scope: Scope, parent: str, child: str, version: int) -> None:
    """A hint to look at the child: what became of it is read there."""
    handle = Handle(scope, scope.entity(WORKFLOW, parent))
    told = Append((encode({"child": child}, "the child"),), f"child:{version}:{child}")
    outcome = await handle.commit((told, SetHead(due_in=0)), (StatusIn((ACTIVE,)),))
    if not isinstance(outcome, Conflict):  # else it has come to its end too
        stored(outcome, handle.entity)


async def retry(handle: Handle) -> bool:
    """Take up one that failed or was cancelled from where it was; False if it is active.

    The failures that made it fail are forgotten; whatever else is recorded stays. One whose driver
    has not heard yet that it was cancelled raises `LeaseHeld`.
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
        if decode(fetched.documents[META].json).get(UNBORN):
            raise InvalidInput(
                f"the workflow {entity.id!r} was cancelled before it was started; retry its parent"
            )
        error = fetched.documents[ERROR]
        for child in _loose_ends(fetched).children.values():
            await _retry_child(handle, child, head.owner)
        loose = _loose_ends(fetched)
        loose.questions.clear()  # withdrawn at the end: what is asked again is another question
        retried = {"retried": decode(error.json).get("steps", [])}
        outcome = await handle.commit(
            (
                SetHead(status=ACTIVE, due_in=0, retain=0.0),
                Append((encode(retried, "the retry"),)),
                Delete(ERROR),
                Delete(TROUBLE),
                loose.put if loose else Delete(OPEN),
                NOBODY_DRIVES,
            ),
            (Unheld(), StatusIn((head.status,)), DocumentAt(ERROR, error.version, error.stamp)),
        )
        if not isinstance(outcome, Conflict):
            stored(outcome, entity)
            return True


async def _retry_child(parent: Handle, child: dict[str, Any], owner: str) -> None:
    """A child that failed is retried first: its parent would only find it failed again."""
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
        pass  # somebody else was faster


async def fork(handle: Handle, at_step: str, id: str) -> None:
    """Begin another workflow with all that this one had recorded before a step.

    An erasure of its user meanwhile forbids the copy: see `forks.py`.
    """
    intent = Handle(handle.scope, handle.scope.entity(FORK, id), await _owner(handle), RETAIN)
    named = encode({"workflow": handle.entity.id}, "the origin")
    begun = stored(await intent.commit((Put(FORKED_FROM, named),)), intent.entity)
    fetched = await handle.fetch(all_documents=True)
    head, scope = fetched.head, handle.scope
    if not head.exists:
        raise missing(handle.entity)
    entries = entries_after(handle, Cursor(0), follow=False)
    records: list[dict[str, Any]] = [decode(entry.body) async for entry in entries]
    end = next((n for n, record in enumerate(records) if asked_for(record) == at_step), None)
    if end is None:
        known = dict.fromkeys(repr(asked) for record in records if (asked := asked_for(record)))
        raise InvalidInput(
            f"the workflow {handle.entity.id!r} has recorded no {at_step!r}, but: "
            f"{', '.join(known) or 'nothing'}"
        )
    kept = records[:end]
    meta = decode(fetched.documents[META].json)
    meta.pop("parent", None)
    documents = copied_documents(fetched, meta["machine"], kept)
    documents[META] = encode(meta, "the input")
    writes: list[Write] = [SetHead(status=ACTIVE, label=meta["kind"], due_in=0)]
    writes += (Put(name, text) for name, text in documents.items())
    if kept:
        writes.append(Append(tuple(encode(record, "the record") for record in kept)))
    copy = Handle(scope, scope.entity(WORKFLOW, id), head.owner)
    unforbidden = (Absent(), NotDroppedSince(begun.at))
    stored(await copy.commit(tuple(writes), unforbidden), copy.entity)


async def _owner(handle: Handle) -> str:
    head = (await handle.fetch()).head
    if not head.exists:
        raise missing(handle.entity)
    return head.owner


def _loose_ends(fetched: Fetched) -> LooseEnds:
    documents = fetched.documents
    return LooseEnds(documents[OPEN].json if OPEN in documents else None)
