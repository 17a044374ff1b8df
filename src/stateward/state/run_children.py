"""The children of a run: workflows that it starts, and is parked for until they have ended."""

from __future__ import annotations

from typing import Any

from stateward.codec import decode
from stateward.errors import LeaseLost, WorkflowFailed
from stateward.ops import Absent, Conflict, Entity, NotDroppedSince, Put, SetHead
from stateward.state.handle import Handle
from stateward.state.intervention_record import check_child
from stateward.state.refusals import stored
from stateward.state.run_branches import Branches, ParkedFor
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive
from stateward.state.work import error_text
from stateward.state.workflow_record import ACTIVE, CANCELLED, COMPLETED, ERROR, META, RESULT


class Children:
    """Starts each child once, after it was noted among the loose ends of the workflow."""

    def __init__(self, drive: Drive, branches: Branches, commits: RunCommits) -> None:
        self._drive = drive
        self._branches = branches
        self._commits = commits

    async def result(self, id_: str, entity: Entity, meta: str) -> Any:
        """Return the result of a child, which is started with `meta` if it does not exist."""
        drive, notices = self._drive, self._drive.record.notices
        kind, child = decode(meta)["kind"], entity.id
        if id_ not in drive.loose_ends.children:
            drive.loose_ends.has(id_, child, kind)
            await self._commits.record_failures()
        begin = SetHead(status=ACTIVE, label=kind, due_in=0), Put(META, meta)
        handle = Handle(drive.scope, entity, await drive.owner())
        while True:
            drive.check(f"the child {child!r}")
            notice = notices.get(child, 0)
            unforbidden = (Absent(), NotDroppedSince(drive.since))
            outcome = await drive.beside(
                handle.commit, begin, unforbidden, reading=(META, RESULT, ERROR)
            )
            if isinstance(outcome, Conflict) and not outcome.head.exists:
                drive.broken = LeaseLost(f"the child {child!r} was deleted: it is started again")
                raise drive.broken
            if isinstance(outcome, Conflict):
                values = {name: decode(value.json) for name, value in outcome.values.items()}
                check_child(child, values.get(META, {}), decode(meta))
                if outcome.head.status == COMPLETED:
                    return values[RESULT]["value"] if RESULT in values else None
                if outcome.head.status != ACTIVE:
                    why = error_text(values[ERROR]) if ERROR in values else ""
                    how = "was" if outcome.head.status == CANCELLED else "has"
                    raise WorkflowFailed(f"the child {child!r} {how} {outcome.head.status}: {why}")
            else:
                stored(outcome, entity)
            await self._branches.park(id_, ParkedFor("child", child, notice=notice))
