"""Checkpoints of workflows: documents of one entity for each run.

    c/ID                a checkpoint
    t/WORKFLOW/TIME/ID  the id of a checkpoint, by its creation time

So storing and loading a checkpoint cost the same for any number of them, and the newest one is
found by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from stateward.codec import Retention, check_commit, check_id, decode, encode, seconds
from stateward.integrations.adapter import AnyStore
from stateward.integrations.agent_framework.checkpoint_values import CheckpointValues
from stateward.integrations.bridge import Bridge, OnBridge, Plan, pages
from stateward.integrations.kept import agent_framework as names
from stateward.ops import (
    Commit,
    Delete,
    DocumentAt,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Put,
    SetHead,
    Value,
)
from stateward.owner import UNSAID, Unsaid, Whose, owner_of
from stateward.state.refusals import refuse, stored

BATCH = 20  # checkpoints that are read in one round trip


class StatewardCheckpointStorage(OnBridge):
    """The checkpoints of one run of a workflow, or of all runs of one conversation, in a store.

    `workflow.run(message, checkpoint_storage=StatewardCheckpointStorage(store, "order-17"))`. It
    belongs to the user `user`, and is kept for `retain` after its last checkpoint. A failing store
    raises; nothing is kept locally. `allow` names types that may be constructed from what is
    stored, besides the framework's own and what `register_checkpoint_type` has named; others are
    refused when they are written. Nothing is pickled: an object is stored as its fields.
    """

    def __init__(
        self,
        store: AnyStore | Bridge,
        id: str,
        *,
        user: Whose = UNSAID,
        allow: Iterable[type | str] = (),
        retain: Retention | Unsaid = UNSAID,
    ) -> None:
        super().__init__(store)
        self._entity = Entity(
            self._bridge.namespace, names.KIND, check_id(id, "the id of a workflow's run")
        )
        self._owner = owner_of(user)
        self._values = CheckpointValues(allow)
        retention = self._bridge.retention if isinstance(retain, Unsaid) else seconds(retain)
        self._retention = retention or 0.0

    # --- what the framework calls ---------------------------------------------------

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint in one commit, and return its id."""
        plain = self._values.to_json(checkpoint.to_dict())
        self._values.from_json(plain)  # or it could not be resumed
        text = encode(plain, "the checkpoint")
        check_commit(len(text), self._bridge.limits)
        id, entity = checkpoint.checkpoint_id, self._entity
        time = _sortable(checkpoint.timestamp)
        writes = (
            Put(names.checkpoint(id), text),
            Put(names.by_time(checkpoint.workflow_name, time, id), encode(id, "the id")),
            SetHead(retain=self._retention),
        )
        op = self._bridge.world.new_op()
        commit = Commit(entity, op, writes, (), self._owner, self._retention or None)
        (outcome,) = await self._bridge.arun(_execute(commit))
        stored(outcome, entity)
        return id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint by its id; raises `WorkflowCheckpointException` if there is none."""
        (value,) = await self._bridge.arun(self._read([checkpoint_id]))
        if value is None:
            raise WorkflowCheckpointException(
                f"there is no checkpoint {checkpoint_id!r} in {self._entity.id!r}"
            )
        return self._checkpoint(value)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, oldest first."""
        ids = await self.list_checkpoint_ids(workflow_name=workflow_name)
        values = await self._bridge.arun(self._read(ids))
        return [self._checkpoint(value) for value in values if value is not None]

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; False if there is none."""
        return await self._bridge.arun(self._delete(checkpoint_id))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the newest checkpoint of a workflow, or None."""
        while True:
            newest = self._listing(workflow_name, limit=1, reverse=True)
            (listed,) = await self._bridge.arun(_execute(newest))
            assert isinstance(listed, Listed)
            if not listed.documents:
                return None
            (value,) = await self._bridge.arun(self._read([decode(listed.documents[0][1].json)]))
            if value is not None:  # None: the checkpoint was deleted in the meantime
                return self._checkpoint(value)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of the checkpoints of a workflow, oldest first."""
        await self._bridge.arun(self._read([]))  # raises if another user owns the run
        (listing,) = await self._bridge.arun(pages(self._listing(workflow_name)))
        return [decode(value.json) for page in listing for _, value in page.documents]

    # --- plans ----------------------------------------------------------------------

    def _listing(self, workflow: str, **options: Any) -> List:
        prefix = names.times(workflow)
        return List(self._entity.namespace, within=self._entity, prefix=prefix, **options)

    def _read(self, ids: Sequence[str]) -> Plan[list[Value | None]]:
        values: list[Value | None] = []
        for start in range(0, len(ids) or 1, BATCH):
            wanted = [names.checkpoint(id) for id in ids[start : start + BATCH]]
            fetch = Fetch(self._entity, self._owner, documents=tuple(wanted))
            (fetched,) = yield (fetch,)
            if not isinstance(fetched, Fetched):
                refuse(fetched, self._entity)
            values += map(fetched.documents.get, wanted)
        return values

    def _delete(self, id: str) -> Plan[bool]:
        (value,) = yield from self._read([id])
        if value is None:
            return False
        checkpoint = decode(value.json)
        time = _sortable(checkpoint["timestamp"])
        writes = (
            Delete(names.checkpoint(id)),
            Delete(names.by_time(checkpoint["workflow_name"], time, id)),
        )
        unchanged = DocumentAt(names.checkpoint(id), value.version, value.stamp)
        op = self._bridge.world.new_op()
        (outcome,) = yield (Commit(self._entity, op, writes, (unchanged,), self._owner),)
        stored(outcome, self._entity)
        return True

    # --- checkpoints ----------------------------------------------------------------

    def _checkpoint(self, value: Value) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(self._values.from_json(decode(value.json)))


def _execute(op: Any) -> Plan[Any]:
    return (yield (op,))


def _sortable(timestamp: str) -> str:
    """Return a time as text that sorts by age; a time without a zone counts as UTC."""
    at = datetime.fromisoformat(timestamp)
    in_utc = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return in_utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
