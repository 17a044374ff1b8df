"""Workers: drive due workflows (abandoned, signalled, awake), schedules and tasks."""

from __future__ import annotations

import asyncio  # async only
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from stateward.codec import check_count, decode
from stateward.errors import InvalidInput, LeaseHeld, StatewardError, StoreMisused
from stateward.kinds import SCHEDULE, WORKFLOW
from stateward.layers.gather import gather
from stateward.ops import Entity, Fetched, Found, List, Listed
from stateward.state.calls import apart, cancellations, interrupted
from stateward.state.handle import Handle
from stateward.state.interventions import tie_up
from stateward.state.pauses import looked_up
from stateward.state.schedule_record import READING as SCHEDULED
from stateward.state.schedules import record_ticks
from stateward.state.scope import Scope
from stateward.state.task_record import ATTEMPTS, CALL, COMPLETED, TaskOptions
from stateward.state.task_run import TaskRun
from stateward.state.work import OF_THE_STORE, holds
from stateward.state.workflow_record import ACTIVE
from stateward.state.workflows import Workflow

logger = logging.getLogger("stateward.workflows")

Handlers = Mapping[str, Callable[..., Any]]
MOST_AT_ONCE = 1000


class Worker:
    """Looks for work repeatedly. Any number may run, in any number of replicas."""

    def __init__(
        self,
        scope: Scope,
        handlers: Handlers,
        tasks: Handlers,
        *,
        ttl: float,
        poll: float,
        taken: set[Entity] | None = None,  # entities that workers beside this one work on
    ) -> None:
        self._scope = scope
        self._handlers = handlers
        self._tasks = tasks
        self._ttl = ttl
        self._poll = poll
        self._taken: set[Entity] = set() if taken is None else taken
        self._cancellations = 0

    async def run(self, until: Callable[[], bool]) -> None:
        """Work until `until` returns True; continues after failures of the store."""
        self._cancellations = cancellations()
        while not until():
            worked = False
            try:
                async for due in self._due(SCHEDULE, None, *SCHEDULED):
                    worked |= await self._alone(due, partial(self._plan, due))
                for kind, handler in self._handlers.items():
                    async for due in self._due_workflows(kind):
                        worked |= await self._alone(due, partial(self._drive, due, handler))
                for name, function in self._tasks.items():
                    async for due in self._due("task", name, CALL):
                        carry_out = partial(self._carry_out, due, function)
                        worked |= await self._alone(due, carry_out)
            except StoreMisused:
                raise  # the store is closed: waiting does not help
            except StatewardError as error:
                logger.warning("work_interrupted", extra={"error": type(error).__name__})
            if not until():
                world = self._scope.world
                nothing_to_do = self._poll * (0.5 + world.random() / 2)
                await world.pause(0 if worked else nothing_to_do)  # other tasks run in any case

    async def _due_workflows(self, kind: str) -> AsyncIterator[Found]:
        """Yield due workflows of a kind unless it is paused; each page checks that again."""
        scope, pause = self._scope, looked_up(self._scope, kind)
        op = List(
            scope.namespace, kind=WORKFLOW, label=kind, due=True, limit=scope.capabilities.page
        )
        while True:
            page, paused = await scope.execute((op, pause))
            assert isinstance(page, Listed)
            assert isinstance(paused, Fetched)
            if paused.head.exists:
                return
            for entity in page.entities:
                yield entity
            if page.next is None:
                return
            op = replace(op, after=page.next)

    async def _due(self, kind: str, label: str | None, *documents: str) -> AsyncIterator[Found]:
        scope = self._scope
        wanted = List(scope.namespace, kind=kind, label=label, due=True, documents=documents)
        async for page in scope.pages(wanted):
            for entity in page.entities:
                yield entity

    async def _alone(self, due: Found, work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Do the work unless another worker of this process does it; a lease excludes the rest."""
        if due.entity in self._taken:
            return False
        self._taken.add(due.entity)
        try:
            return await work()
        finally:
            self._taken.discard(due.entity)

    async def _plan(self, schedule: Found) -> bool:
        """Record the due ticks of a schedule; False if another replica does."""
        try:
            return await record_ticks(self._scope, schedule)
        except InvalidInput as error:  # its cron expression or time zone is not supported here
            logger.warning(
                "schedule_left", extra={"schedule": schedule.entity.id, "error": str(error)}
            )
            return False

    async def _drive(self, due: Found, handler: Callable[..., Any]) -> bool:
        """Drive one workflow; False if another replica does."""
        owner = due.head.owner
        if due.head.status != ACTIVE:  # its end was interrupted before all loose ends were tied up
            await tie_up(Handle(self._scope, due.entity, owner))
            return False
        workflow = Workflow(self._scope, due.entity.id, owner=owner, ttl=self._ttl, wait=0)
        entered = False
        try:
            async with workflow as run:
                entered = True
                if run.status == ACTIVE:  # else another replica has just finished it
                    returned = await apart(handler, run)
                    run.result = run.result if returned is None else returned
        except BaseException as error:
            if isinstance(error, LeaseHeld) and not entered:
                return False  # another replica drives it
            self._raise_if_interrupted(error)
            # Either the workflow has failed, or it is still active and will be tried again.
            logger.warning(
                "workflow_left", extra={"workflow": due.entity.id, "error": type(error).__name__}
            )
            # Still active, it is due at once: pause, or this would be a busy loop.
            return not holds(error, OF_THE_STORE)
        return True

    async def _carry_out(self, due: Found, function: Callable[..., Any]) -> bool:
        """Run one scheduled task whose time has come."""
        call = decode(due.documents[CALL].json)
        if "args" not in call or due.head.status == COMPLETED:
            return False
        options = TaskOptions(
            due.head.owner,
            self._ttl,
            0,
            call.get("attempts", ATTEMPTS),
            fingerprint=call["fingerprint"],
            retain=due.head.retain,
        )
        id_ = due.entity.id
        task = TaskRun(self._scope, id_, function, call["args"], call["kwargs"], options)
        try:
            await apart(task.run)
        except BaseException as error:
            if isinstance(error, LeaseHeld) and not task.claimed:
                return False
            self._raise_if_interrupted(error)
            logger.warning("task_left", extra={"task": id_, "error": type(error).__name__})
            return not holds(error, OF_THE_STORE)
        return True

    def _raise_if_interrupted(self, error: BaseException) -> None:
        """Raise if the worker itself is cancelled, not just a task of the handler."""
        if interrupted(error, self._cancellations):
            raise error
        # async only: begin
        if cancellations() > self._cancellations:
            raise asyncio.CancelledError from error  # the lease was lost at the same moment
        # async only: end


async def work_side_by_side(
    make: Callable[[set[Entity]], Worker], concurrency: int, until: Callable[[], bool]
) -> None:
    """Run workers concurrently, each on other work; when one ends, so do the others."""
    if check_count(concurrency, "concurrency") > MOST_AT_ONCE:
        raise InvalidInput(f"concurrency is at most {MOST_AT_ONCE:,}: start more replicas instead")
    taken: set[Entity] = set()
    ended = False

    def over() -> bool:
        return ended or until()

    async def one() -> None:
        nonlocal ended
        try:
            await make(taken).run(over)
        finally:
            ended = True

    await gather([one] * concurrency)
