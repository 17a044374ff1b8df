"""Driving what nobody drives: abandoned, signalled and due workflows, schedules and tasks."""

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
from stateward.state.run_record import ACTIVE
from stateward.state.schedule_record import READING as SCHEDULED
from stateward.state.schedules import record_ticks
from stateward.state.scope import Scope
from stateward.state.task_record import ATTEMPTS, CALL, COMPLETED, TaskOptions
from stateward.state.task_run import TaskRun
from stateward.state.work import OF_THE_STORE, holds
from stateward.state.workflows import Workflow

logger = logging.getLogger("stateward.workflows")

Handlers = Mapping[str, Callable[..., Any]]
MOST_AT_ONCE = 1000


class Worker:
    """Looks for work again and again. Any number may run, in any number of replicas."""

    def __init__(
        self,
        scope: Scope,
        handlers: Handlers,
        tasks: Handlers,
        *,
        ttl: float,
        poll: float,
        taken: set[Entity] | None = None,  # what the workers beside this one are at
    ) -> None:
        self._scope = scope
        self._handlers = handlers
        self._tasks = tasks
        self._ttl = ttl
        self._poll = poll
        self._taken: set[Entity] = set() if taken is None else taken
        self._cancellations = 0

    async def run(self, until: Callable[[], bool]) -> None:
        """Work until told to stop; a failing store is waited out."""
        self._cancellations = cancellations()
        while not until():
            worked = False
            try:
                async for found in self._due(SCHEDULE, None, *SCHEDULED):
                    worked |= await self._alone(found, partial(self._plan, found))
                for kind, handler in self._handlers.items():
                    async for found in self._due_workflows(kind):
                        worked |= await self._alone(found, partial(self._drive, found, handler))
                for name, function in self._tasks.items():
                    async for found in self._due("task", name, CALL):
                        carry_out = partial(self._carry_out, found, function)
                        worked |= await self._alone(found, carry_out)
            except StoreMisused:
                raise  # closed: no waiting mends that
            except StatewardError as error:
                logger.warning("work_interrupted", extra={"error": type(error).__name__})
            if not until():
                world = self._scope.world
                nothing_to_do = self._poll * (0.5 + world.random() / 2)
                await world.pause(0 if worked else nothing_to_do)  # others run in any case

    async def _due_workflows(self, kind: str) -> AsyncIterator[Found]:
        """Unless the kind is paused: that is asked with each page, in the same round trip."""
        scope, pause = self._scope, looked_up(self._scope, kind)
        op = List(
            scope.namespace, kind=WORKFLOW, label=kind, due=True, limit=scope.capabilities.page
        )
        while True:
            listed, paused = await scope.execute((op, pause))
            assert isinstance(listed, Listed)
            assert isinstance(paused, Fetched)
            if paused.head.exists:
                return
            for found in listed.entities:
                yield found
            if listed.next is None:
                return
            op = replace(op, after=listed.next)

    async def _due(self, kind: str, label: str | None, *documents: str) -> AsyncIterator[Found]:
        scope = self._scope
        wanted = List(scope.namespace, kind=kind, label=label, due=True, documents=documents)
        async for page in scope.pages(wanted):
            for found in page.entities:
                yield found

    async def _alone(self, found: Found, work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Its lease keeps all others away; those of this process need not even ask for it."""
        if found.entity in self._taken:
            return False
        self._taken.add(found.entity)
        try:
            return await work()
        finally:
            self._taken.discard(found.entity)

    async def _plan(self, found: Found) -> bool:
        """Record the ticks of a schedule that have come; False if another replica does."""
        try:
            return await record_ticks(self._scope, found)
        except InvalidInput as error:  # what reads its expression is not installed here
            logger.warning(
                "schedule_left", extra={"schedule": found.entity.id, "error": str(error)}
            )
            return False

    async def _drive(self, found: Found, handler: Callable[..., Any]) -> bool:
        """Go on with one workflow; False if another replica drives it."""
        owner = found.head.owner
        if found.head.status != ACTIVE:  # whoever ended it did not come to the end of that
            await tie_up(Handle(self._scope, found.entity, owner))
            return False
        workflow = Workflow(self._scope, found.entity.id, owner=owner, ttl=self._ttl, wait=0)
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
            # Recorded where it belongs (a failed workflow), or left active for the next try.
            logger.warning(
                "workflow_left",
                extra={"workflow": found.entity.id, "error": type(error).__name__},
            )
            # Left active it is due at once: without a pause this would go round and round.
            return not holds(error, OF_THE_STORE)
        return True

    async def _carry_out(self, found: Found, function: Callable[..., Any]) -> bool:
        """Run one scheduled task whose time has come."""
        call = decode(found.documents[CALL].json)
        if "args" not in call or found.head.status == COMPLETED:
            return False
        options = TaskOptions(
            found.head.owner,
            self._ttl,
            0,
            call.get("attempts", ATTEMPTS),
            fingerprint=call["fingerprint"],
            retain=found.head.retain,
        )
        id_ = found.entity.id
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
        """What ends the worker: not what a handler let out, be it the end of a task of its own."""
        if interrupted(error, self._cancellations):
            raise error
        # async only: begin
        if cancellations() > self._cancellations:
            raise asyncio.CancelledError from error  # its lease was lost at the same moment
        # async only: end


async def work_side_by_side(
    make: Callable[[set[Entity]], Worker], concurrency: int, until: Callable[[], bool]
) -> None:
    """So many workers, each busy with something else; when one ends, so do the others."""
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
