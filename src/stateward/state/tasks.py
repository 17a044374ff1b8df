"""Recorded tasks: their state, retry, cancellation and listing."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from stateward.codec import encode
from stateward.errors import InvalidInput, StateConflictError
from stateward.kinds import TASK
from stateward.ops import (
    CommitsAt,
    Conflict,
    Delete,
    Fetched,
    Found,
    List,
    Outcome,
    Put,
    Restore,
    SetHead,
    StatusIn,
    Value,
)
from stateward.records import TaskInfo
from stateward.state.handle import Handle
from stateward.state.malformed import readable
from stateward.state.recent import Order, listed
from stateward.state.refusals import stored
from stateward.state.scope import Scope
from stateward.state.task_record import (
    CALL,
    CANCELLED,
    COMPLETED,
    DEATHS,
    ERROR,
    FAILED,
    PENDING,
    cancellation,
    is_runnable,
    task_info,
)

SHOWN = (CALL, ERROR, DEATHS)


class Task:
    """A handle on one recorded task."""

    def __init__(self, scope: Scope, id: str, owner: str | None = None) -> None:
        self._handle = Handle(scope, scope.entity(TASK, id), owner)

    @property
    def id(self) -> str:
        return self._handle.entity.id

    async def info(self) -> TaskInfo | None:
        """Return the task's current state; None if it does not exist."""
        fetched = await self._handle.fetch(documents=SHOWN)
        return self._info(fetched) if fetched.head.exists else None

    async def retry(self) -> TaskInfo:
        """Let a failed or cancelled task run again, with all its attempts; returns its new state.

        `work` runs it immediately if it knows the function and the arguments were kept; otherwise
        it is pending without a time (`due_at` is None), and its next delivery runs it. Raises
        `StateConflictError` if it is pending, running or completed.
        """
        while True:
            fetched = await self._there()
            head = fetched.head
            if head.status not in (FAILED, CANCELLED):
                raise StateConflictError(
                    f"the task {self.id!r} is {head.status}: only one that failed or was cancelled "
                    "can be tried again",
                    expected=FAILED,
                    current=head.status,
                )
            again = SetHead(status=PENDING, due=0.0, retain=head.retain or 0.0)
            if is_runnable(fetched.documents):
                again = replace(again, due=None, due_in=0.0)
            as_read = (CommitsAt(head.commits),)
            if await self._handle.commit_if(as_read, again, Delete(ERROR), Delete(DEATHS)):
                return self._info(await self._there())

    async def cancel(self, reason: str = "") -> TaskInfo:
        """Cancel the task, and discard its result if it is running; returns its new state.

        The first record wins: the status is `cancelled`, or `completed` if that came first. After a
        cancellation nothing of the task is recorded. The process that runs it loses its lease: its
        code is cancelled within a third of the ttl, or gets `LeaseLost` from its next call to the
        store. Deliveries raise `TaskCancelled`.
        """
        if not isinstance(reason, str):
            raise InvalidInput(f"the reason of a cancellation is a text, not {reason!r}")
        while True:
            fetched = await self._there()
            if fetched.head.status in (COMPLETED, CANCELLED):
                return self._info(fetched)
            outcome = await self._end(fetched, reason)
            if not isinstance(outcome, Conflict):
                stored(outcome, self._handle.entity)
                return self._info(await self._there())

    async def _end(self, fetched: Fetched, reason: str) -> Outcome:
        """Commit the cancellation if the task is still as it was fetched."""
        head, handle = fetched.head, self._handle
        why = encode(cancellation(fetched.documents, reason), "the reason")
        end = SetHead(status=CANCELLED, due=0.0, retain=head.retain or 0.0)
        unchanged = (CommitsAt(head.commits),)
        if head.lease is None:
            return await handle.commit((end, Put(ERROR, why)), unchanged)
        # Its holder, even one believed dead, could still write. A restored entity has no lease:
        # from then on every write of the holder is refused, its renewals too.
        last = fetched.documents.get(ERROR)
        error = Value(why, last.version + 1 if last else 1, handle.scope.world.new_op(), 0.0, 0)
        error = replace(error, updated=head.updated)
        commits = head.commits + 1  # a lower number would look as if the store had lost writes
        ended = replace(head, status=CANCELLED, due=None, lease=None, commits=commits)
        outcome = await handle.commit((Restore(ended, (), {ERROR: error}, True),), unchanged)
        if isinstance(outcome, Conflict):
            return outcome
        stored(outcome, handle.entity)
        # A restored entity keeps its times; this commit sets them, and starts the retention.
        return await handle.commit((end,), (StatusIn((CANCELLED,)),))

    async def _there(self) -> Fetched:
        fetched = await self._handle.fetch(documents=SHOWN)
        if not fetched.head.exists:
            raise InvalidInput(f"there is no task {self.id!r}; store.tasks() lists those there are")
        return fetched

    def _info(self, fetched: Fetched) -> TaskInfo:
        return task_info(Found(self._handle.entity, fetched.head, fetched.documents))


async def list_tasks(
    scope: Scope,
    status: str | None,
    owner: str | None,
    order: Order,
    before: str | None,
    limit: int | None,
) -> AsyncIterator[TaskInfo]:
    """Yield tasks by id, or the most recently updated first."""
    op = List(scope.namespace, kind=TASK, owner=owner, status=status, documents=SHOWN)

    def is_task(found: Found) -> bool:
        return readable(found.entity, lambda: task_info(found)) is not None

    async for task, cursor in listed(scope, op, order, before, limit, is_task):
        yield task_info(task, cursor)
