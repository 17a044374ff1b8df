"""The methods of a store for work: locks, tasks, schedules, effects and workflows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, overload

from stateward.codec import THIRTY_DAYS, Retention, check_id, check_span, check_ttl, seconds
from stateward.errors import InvalidInput
from stateward.kinds import LEADER, LOCK, THREAD, WORKFLOW
from stateward.owner import UNSAID, Whose, owner_of
from stateward.records import EffectInfo, OpenQuestion, ScheduleInfo, TaskInfo, WorkflowInfo
from stateward.state.handle import Handle
from stateward.state.layered import Sections
from stateward.state.locks import RETAIN, Lock
from stateward.state.task_record import TaskOptions
from stateward.state.task_run import TaskRun
from stateward.state.threads import Thread

# What a conversation does not need is imported by the method that does: half of all modules.
if TYPE_CHECKING:
    from stateward.state.effects import Effect
    from stateward.state.recent import Order
    from stateward.state.schedules import Schedule
    from stateward.state.tasks import Task
    from stateward.state.workflow_record import Machine
    from stateward.state.workflows import Workflow

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class StoreWork(Sections):
    """Locks, tasks, schedules, effects, workflows and their workers."""

    def lock(
        self, name: str, *, ttl: float = 30.0, wait: float | None = None, on: Thread | None = None
    ) -> Lock:
        """Return a lock across replicas: `async with store.lock("inventory") as lease`.

        Waits up to `wait` seconds (None: as long as it takes; 0: not at all), then raises
        `LeaseHeld`. The lease is renewed while the block runs; if it is lost, the block is
        cancelled and `LeaseLost` is raised. With `on=thread` it is that thread's own lease,
        whatever the name (as with `thread.lead`), and `thread.append(..., fence=lease)` is checked
        together with the write.
        """
        if on is not None:
            check_id(name, "the name of a lock")
            return on.lead(ttl=ttl, wait=wait)
        return self._lock(LOCK, name, ttl, wait)

    def elect(self, name: str, *, ttl: float = 30.0, wait: float | None = None) -> Lock:
        """Lead a name: the block runs in one replica at a time, the others wait to take over."""
        return self._lock(LEADER, name, ttl, wait)

    def _lock(self, kind: str, name: str, ttl: float, wait: float | None) -> Lock:
        handle = Handle(self._scope, self._scope.entity(kind, name), retain=RETAIN)
        return Lock(handle, ttl=ttl, wait=wait)

    # Options beside the arguments of a function: no type says that of keyword arguments, so with
    # options only positional ones are accepted by type checkers.
    # async only: begin
    @overload
    async def once(
        self, id: str, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def once(
        self,
        id: str,
        function: Callable[[*Ts], Awaitable[R]],
        *args: *Ts,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
    ) -> R: ...

    # async only: end
    @overload
    async def once(
        self, id: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def once(
        self,
        id: str,
        function: Callable[[*Ts], R],
        *args: *Ts,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
    ) -> R: ...

    async def once(  # type: ignore[misc]  # a function may have arguments of these names
        self,
        id: str,
        function: Callable[..., Any],
        *args: Any,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
        **kwargs: Any,
    ) -> Any:
        """Return the result of `function(*args, **kwargs)`, computed once across replicas.

        A completed task returns its stored result. If it runs elsewhere, this waits up to `wait`
        seconds, then raises `LeaseHeld`. A failed task is retried by the next delivery, up to
        `attempts` times, then raises `TaskFailed`; `Permanent` makes a failure final. The same id
        with other arguments raises `KeyReusedError`; `fingerprint` replaces the arguments in that
        comparison. With `at` in the future the task is only recorded, for `work` to run when it is
        due, and None is returned; if it fails then, `work` retries it, up to `attempts` times in
        total.
        """
        owner = owner_of(user)
        options = TaskOptions(owner, ttl, wait, attempts, at, fingerprint, seconds(retain))
        return await TaskRun(self._scope, id, function, args, kwargs, options).run()

    def task(self, id: str, user: Whose = UNSAID) -> Task:
        """Return a handle on a recorded task, to inspect, retry or cancel it."""
        from stateward.state.tasks import Task

        return Task(self._scope, id, owner_of(user))

    async def tasks(
        self,
        status: str | None = None,
        *,
        user: Whose = UNSAID,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[TaskInfo]:
        """List tasks: all, or those pending, running, completed, failed or cancelled.

        Ordered by id, or newest first; `order`, `before` and `limit` are those of `threads`.
        """
        from stateward.state.tasks import list_tasks

        owner = owner_of(user)
        async for info in list_tasks(self._scope, status, owner, order, before, limit):
            yield info

    def schedule(self, id: str, user: Whose = UNSAID) -> Schedule:
        """Return a handle on recurring work: `declare` says when, and `work` runs each tick once.

        With `user` its tasks and workflows belong to that user too.
        """
        from stateward.state.schedules import Schedule

        return Schedule(self._scope, id, owner_of(user))

    async def schedules(self, user: Whose = UNSAID) -> AsyncIterator[ScheduleInfo]:
        """List schedules by id, with their next tick and the outcome of the last one."""
        from stateward.state.schedules import list_schedules

        async for info in list_schedules(self._scope, owner_of(user)):
            yield info

    def effect(self, id: str) -> Effect:
        """Return a handle on an effect by its id, as `effects` and `EffectUnknown` give it.

        Use it to resolve an effect whose outcome is unknown. Effects are carried out by
        `Thread.effect` and `Run.effect`.
        """
        from stateward.state.effects import Effect

        scope = self._threads if str(id).startswith(f"{THREAD}/") else self._scope
        return Effect(scope, id, self._retain)

    async def effects(
        self,
        status: str | None = None,
        *,
        user: Whose = UNSAID,
        thread: str | None = None,
        workflow: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[EffectInfo]:
        """List effects: all, or those intended, done, failed or unknown.

        Ordered by id; unknown ones oldest first. `thread` and `workflow` select those of one,
        `name` those of one function. `after` is the `cursor` of the last one shown.
        """
        from stateward.state.effects import list_effects

        scopes = list(dict.fromkeys((self._threads, self._scope)))
        whose = None
        if thread is not None and workflow is not None:
            raise InvalidInput("effects belong to a thread or to a workflow: name one of them")
        if thread is not None:
            scopes, whose = [self._threads], self._threads.entity(THREAD, thread)
        elif workflow is not None:
            scopes, whose = [self._scope], self._scope.entity(WORKFLOW, workflow)
        async for info in list_effects(scopes, status, owner_of(user), whose, name, after, limit):
            yield info

    def workflow(
        self,
        id: str,
        *,
        kind: str | None = None,
        user: Whose = UNSAID,
        input: Any = None,
        machine: Machine | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
        retain: Retention = None,
    ) -> Workflow:
        """Return a durable workflow: `async with` starts it, or continues where it stopped.

        Leaving the block normally completes it. `StoreUnavailable`, `LeaseLost` and cancellation
        leave it active for another replica; any other exception fails it. If another replica drives
        it, entering waits up to `wait` seconds, then raises `LeaseHeld`. `retain`, set when it is
        started, is how long it is kept after its end (None: for ever).
        """
        from stateward.state.workflows import Workflow

        return Workflow(
            self._scope,
            id,
            kind=kind,
            owner=owner_of(user),
            input=input,
            machine=machine,
            ttl=ttl,
            wait=wait,
            retain=seconds(retain),
        )

    async def workflows(
        self,
        *,
        kind: str | None = None,
        user: Whose = UNSAID,
        status: str | None = None,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[WorkflowInfo]:
        """List workflows: all, or those active, completed, failed or cancelled.

        Ordered by id, or newest first; `order`, `before` and `limit` are those of `threads`.
        """
        from stateward.state.workflows import list_workflows

        async for info in list_workflows(
            self._scope,
            kind=kind,
            owner=owner_of(user),
            status=status,
            order=order,
            before=before,
            limit=limit,
        ):
            yield info

    async def waiting(
        self,
        signal: str | None = None,
        *,
        for_: str | None = None,
        user: Whose = UNSAID,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[OpenQuestion]:
        """List the open questions of workflows, oldest first: `run.wait(…, ask=…, for_=…)`.

        All, or by signal, by addressee, or of one user's workflows. A page is one round trip,
        however many workflows there are; `after` is the id of the last question shown.
        """
        from stateward.state.questions import open_questions

        async for question in open_questions(
            self._scope, signal, for_, owner_of(user), after, limit
        ):
            yield question

    async def answer(self, question: OpenQuestion | str, value: Any = None) -> bool:
        """Answer a question, or the one with that id: `run.wait` returns the value.

        The first answer counts. Returns False if the question is no longer open: it was answered,
        it timed out, or it was withdrawn.
        """
        from stateward.state.questions import answer

        id_ = question.id if isinstance(question, OpenQuestion) else question
        return await answer(self._scope, id_, value)

    async def pause(self, kind: str) -> None:
        """Stop workers from taking workflows of this kind, in all replicas.

        Workflows that are being driven continue until they park or end.
        """
        from stateward.state.pauses import pause

        await pause(self._scope, kind)

    async def resume(self, kind: str) -> None:
        """Let workers take workflows of this kind again. Does nothing if it is not paused."""
        from stateward.state.pauses import resume

        await resume(self._scope, kind)

    async def paused(self) -> list[str]:
        """List the kinds of workflows that are paused."""
        from stateward.state.pauses import paused

        return await paused(self._scope)

    async def work(
        self,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        poll: float = 1.0,
        ttl: float = 30.0,
        until: Callable[[], bool] | None = None,
        concurrency: int = 1,
    ) -> None:
        """Drive workflows that are abandoned, signalled or due, and schedules, until cancelled.

        `handlers` maps a kind to a function of the run; `tasks` maps a function's name to the
        function, for tasks scheduled with `once(..., at=...)`. Up to `concurrency` of them are
        driven concurrently, and none twice. If the store fails, the worker waits for it; what could
        not be finished stays active for the next worker.
        """
        from stateward.state.worker import Worker, work_side_by_side

        ttl, poll = check_ttl(ttl), check_span(poll, "poll")
        await work_side_by_side(
            lambda taken: Worker(
                self._scope, handlers, tasks or {}, ttl=ttl, poll=poll, taken=taken
            ),
            concurrency,
            until or (lambda: False),
        )
