"""The REST API of work: workflows, tasks, effects, questions, schedules and locks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Literal, NoReturn

from msgspec import Struct

from stateward.codec import encode
from stateward.errors import InvalidInput
from stateward.kinds import LEADER, LOCK
from stateward.ops import Found, List, Listed
from stateward.records import (
    EffectInfo,
    OpenQuestion,
    ScheduleInfo,
    TaskInfo,
    WorkflowInfo,
    moment,
)
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Page, Whom, answer, missing, page, past, whose
from stateward.server.route import KEY, RestCall, RestRoute
from stateward.state.handle import Handle
from stateward.state.locks import break_lease
from stateward.state.tasks import Task
from stateward.state.workflows import Workflow


class WorkflowsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which workflows, those first that were touched last."""

    user: str | None = None
    kind: str | None = None
    status: Literal["active", "completed", "failed", "cancelled"] | None = None
    limit: Limit = 100
    after: str | None = None


class TasksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks, those first that were touched last."""

    user: str | None = None
    status: Literal["pending", "running", "completed", "failed", "cancelled"] | None = None
    limit: Limit = 100
    after: str | None = None


class EffectsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which effects, the first of them: those that are unknown the oldest first."""

    user: str | None = None
    status: Literal["intended", "done", "failed", "unknown"] | None = None
    of_thread: str | None = None
    of_workflow: str | None = None
    name: str | None = None
    limit: Limit = 100


class WaitingQuery(Struct, frozen=True, forbid_unknown_fields=True, rename={"for_": "for"}):
    """Which open questions, the oldest first; `for` is whom they are for."""

    user: str | None = None
    signal: str | None = None
    for_: str | None = None
    limit: Limit = 100
    after: str | None = None


class NamesPage(Struct, frozen=True, forbid_unknown_fields=True):
    """Some of a list that is ordered by name."""

    user: str | None = None
    limit: Limit = 100
    after: str | None = None


class LocksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Locks, or with `leaders` who leads a name."""

    leaders: bool = False
    limit: Limit = 100
    after: str | None = None


class StartBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The kind of a workflow, and what it begins with."""

    kind: str
    input: Any = None


class ValueBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is told."""

    value: Any = None


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why; whoever looks later is glad to know."""

    reason: str = ""


class StepForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of the new workflow, and the recorded step before which it stands."""

    to: str
    at_step: str


class ResolveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an effect."""

    decision: Literal["done", "failed", "not done"]
    result: Any = None
    error: str = ""


class ScheduleBody(Struct, frozen=True, forbid_unknown_fields=True):
    """When, and which task or workflow; see `Schedule.declare`."""

    cron: str
    task: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    workflow: str | None = None
    input: Any = None
    tz: str = "UTC"
    missed: Literal["skip", "once", "all"] = "once"


class BreakBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The token of the lease that was seen, and whether it is that of a leader."""

    token: int
    leader: bool = False


class ChangeMade(Struct, frozen=True):
    """Whether this request has changed anything; false: it was so before."""

    changed: bool


class Begun(Struct, frozen=True):
    """The new workflow."""

    id: str


class LockShown(Struct, frozen=True):
    """Who holds a lock, or leads a name."""

    name: str
    holder: str | None
    token: int | None
    granted_at: datetime | None
    until: datetime | None


# --- workflows --------------------------------------------------------------------------


def _workflow(call: RestCall, **options: Any) -> Workflow:
    return call.store.workflow(call.path["workflow"], user=whose(call, call.query.user), **options)


async def _workflows(call: RestCall) -> Reply:
    query: WorkflowsQuery = call.query
    listing = call.store.workflows(
        kind=query.kind,
        user=whose(call, query.user),
        status=query.status,
        order="recent",
        before=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


async def _workflow_shown(call: RestCall) -> Reply:
    info = await _workflow(call).info()
    if info is None:
        raise missing("workflow", call.path["workflow"])
    return answer(info)


async def _start(call: RestCall) -> Reply:
    body: StartBody = call.body
    begun = await _workflow(call, kind=body.kind, input=body.input).start()
    return answer(ChangeMade(begun), 201 if begun else 200)


async def _refuse(call: RestCall, error: InvalidInput) -> NoReturn:
    """Say that there is none, if that is why it cannot be done."""
    if await _workflow(call).info() is None:
        raise missing("workflow", call.path["workflow"]) from error
    raise error


async def _signal(call: RestCall) -> Reply:
    body: ValueBody = call.body
    key = call.headers.get(KEY.lower())
    try:
        new = await _workflow(call).signal(call.path["signal"], body.value, key=key)
    except InvalidInput as error:
        await _refuse(call, error)
    headers = {} if new else {"idempotent-replayed": "true"}
    return answer(ChangeMade(new), 201 if new else 200, headers)


async def _cancel(call: RestCall) -> Reply:
    body: ReasonBody = call.body
    try:
        return answer(ChangeMade(await _workflow(call).cancel(body.reason)))
    except InvalidInput as error:
        await _refuse(call, error)


async def _retry(call: RestCall) -> Reply:
    try:
        return answer(ChangeMade(await _workflow(call).retry()))
    except InvalidInput as error:
        await _refuse(call, error)


async def _fork(call: RestCall) -> Reply:
    body: StepForkBody = call.body
    try:
        await _workflow(call).fork(body.at_step, id=body.to)
    except InvalidInput as error:
        await _refuse(call, error)
    return answer(Begun(body.to), 201)


# --- questions, tasks and effects -------------------------------------------------------


async def _waiting(call: RestCall) -> Reply:
    query: WaitingQuery = call.query
    listing = call.store.waiting(
        query.signal,
        for_=query.for_,
        user=whose(call, query.user),
        after=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda question: question.id)


async def _answer(call: RestCall) -> Reply:
    body: ValueBody = call.body
    return answer(ChangeMade(await call.store.answer(call.path["question"], body.value)))


async def _tasks(call: RestCall) -> Reply:
    query: TasksQuery = call.query
    listing = call.store.tasks(
        query.status,
        user=whose(call, query.user),
        order="recent",
        before=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


async def _task_shown(call: RestCall) -> Reply:
    return answer(await _task(call))


async def _task(call: RestCall) -> TaskInfo:
    info = await _task_of(call).info()
    if info is None:
        raise missing("task", call.path["task"])
    return info


def _task_of(call: RestCall) -> Task:
    return call.store.task(call.path["task"], whose(call, call.query.user))


async def _retry_task(call: RestCall) -> Reply:
    try:
        return answer(await _task_of(call).retry())
    except InvalidInput:
        await _task(call)  # or says that there is none
        raise


async def _cancel_task(call: RestCall) -> Reply:
    try:
        return answer(await _task_of(call).cancel(call.body.reason))
    except InvalidInput:
        await _task(call)
        raise


async def _effects(call: RestCall) -> Reply:
    query: EffectsQuery = call.query
    listing = call.store.effects(
        query.status,
        user=whose(call, query.user),
        thread=query.of_thread,
        workflow=query.of_workflow,
        name=query.name,
        limit=query.limit,
    )
    return answer(Page([info async for info in listing], None))


async def _resolve(call: RestCall) -> Reply:
    body: ResolveBody = call.body
    effect = call.store.effect(call.path["effect"])
    if await effect.info() is None:
        raise missing("effect", call.path["effect"])
    by = f"key {call.asker.name}"
    done = await effect.resolve(body.decision, result=body.result, error=body.error, by=by)
    return answer(done)


# --- schedules and locks ----------------------------------------------------------------


async def _schedules(call: RestCall) -> Reply:
    query: NamesPage = call.query
    listing = call.store.schedules(whose(call, query.user))
    return await page(
        call, query.limit, past(listing, query.after, lambda info: info.id), lambda info: info.id
    )


async def _declare(call: RestCall) -> Reply:
    body: ScheduleBody = call.body
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    info = await schedule.declare(
        body.cron,
        task=body.task,
        args=body.args,
        kwargs=body.kwargs,
        workflow=body.workflow,
        input=body.input,
        tz=body.tz,
        missed=body.missed,
    )
    return answer(info)


async def _schedule(call: RestCall) -> ScheduleInfo:
    info = await call.store.schedule(call.path["schedule"], whose(call, call.query.user)).info()
    if info is None:
        raise missing("schedule", call.path["schedule"])
    return info


async def _schedule_shown(call: RestCall) -> Reply:
    return answer(await _schedule(call))


async def _pause(call: RestCall) -> Reply:
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.pause())


async def _resume(call: RestCall) -> Reply:
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.resume())


async def _remove_schedule(call: RestCall) -> Reply:
    await call.store.schedule(call.path["schedule"], whose(call, call.query.user)).remove()
    return Reply(204)


async def _locks(call: RestCall) -> Reply:
    query: LocksQuery = call.query
    return await page(
        call, query.limit, _held(call, query), lambda found: found.entity.id, _lock_shown
    )


async def _held(call: RestCall, query: LocksQuery) -> AsyncIterator[Found]:
    scope = call.store.sections["workflows"]
    kind = LEADER if query.leaders else LOCK
    after = None if query.after is None else encode([0.0, kind, query.after], "a cursor")
    op = List(scope.namespace, kind, limit=query.limit, after=after)
    listed = (await scope.execute((op,)))[0]
    assert isinstance(listed, Listed)
    for found in listed.entities:
        yield found


def _lock_shown(found: Found) -> LockShown:
    lease, name = found.head.lease, found.entity.id
    if lease is None:
        return LockShown(name, None, None, None, None)
    return LockShown(name, lease.holder, lease.token, moment(lease.granted), moment(lease.until))


async def _break(call: RestCall) -> Reply:
    body: BreakBody = call.body
    scope = call.store.sections["workflows"]
    handle = Handle(scope, scope.entity(LEADER if body.leader else LOCK, call.path["lock"]))
    head = await break_lease(handle, body.token)
    if head is None:
        return Reply(204)
    if not head.exists:
        raise missing("lock", call.path["lock"])
    raise Refusal(409, "that lease was given back or taken over meanwhile: look again")


_W, _T, _S = "/v1/workflows/{workflow}", "/v1/tasks/{task}", "/v1/schedules/{schedule}"
WORK = (
    RestRoute(
        "GET",
        "/v1/workflows",
        "read",
        _workflows,
        "Workflows, the newest first",
        Page[WorkflowInfo],
        WorkflowsQuery,
    ),
    RestRoute("GET", _W, "read", _workflow_shown, "How a workflow stands", WorkflowInfo, Whom),
    RestRoute(
        "POST",
        f"{_W}/start",
        "write",
        _start,
        "Begin a workflow, for a worker to drive",
        ChangeMade,
        Whom,
        StartBody,
        201,
    ),
    RestRoute(
        "POST",
        f"{_W}/signals/{{signal}}",
        "write",
        _signal,
        "Tell a workflow what it waits for",
        ChangeMade,
        Whom,
        ValueBody,
        201,
        (KEY,),
    ),
    RestRoute(
        "POST",
        f"{_W}/cancel",
        "operate",
        _cancel,
        "End a workflow and its children",
        ChangeMade,
        Whom,
        ReasonBody,
        one_users=False,
    ),
    RestRoute(
        "POST",
        f"{_W}/retry",
        "operate",
        _retry,
        "Go on with a workflow that failed or was cancelled",
        ChangeMade,
        Whom,
        one_users=False,
    ),
    RestRoute(
        "POST",
        f"{_W}/fork",
        "operate",
        _fork,
        "Begin another workflow that stands before a step of this one",
        Begun,
        Whom,
        StepForkBody,
        201,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/waiting",
        "read",
        _waiting,
        "What workflows ask and wait for, the oldest first",
        Page[OpenQuestion],
        WaitingQuery,
    ),
    RestRoute(
        "POST",
        "/v1/waiting/{question}/answer",
        "write",
        _answer,
        "Answer a question; the first answer counts",
        ChangeMade,
        body=ValueBody,
        one_users=False,
    ),
    RestRoute(
        "GET", "/v1/tasks", "read", _tasks, "Tasks, the newest first", Page[TaskInfo], TasksQuery
    ),
    RestRoute("GET", _T, "read", _task_shown, "How a task stands", TaskInfo, Whom),
    RestRoute(
        "POST",
        f"{_T}/retry",
        "operate",
        _retry_task,
        "Let a failed or cancelled task run again",
        TaskInfo,
        Whom,
    ),
    RestRoute(
        "POST",
        f"{_T}/cancel",
        "operate",
        _cancel_task,
        "Let a task never run, or have run in vain",
        TaskInfo,
        Whom,
        ReasonBody,
    ),
    RestRoute(
        "GET",
        "/v1/effects",
        "read",
        _effects,
        "What tools did, or may have done",
        Page[EffectInfo],
        EffectsQuery,
    ),
    RestRoute(
        "POST",
        "/v1/effects/{effect}/resolve",
        "operate",
        _resolve,
        "Say what became of an effect that is unknown or failed",
        EffectInfo,
        body=ResolveBody,
    ),
    RestRoute(
        "GET", "/v1/schedules", "read", _schedules, "Schedules by id", Page[ScheduleInfo], NamesPage
    ),
    RestRoute("GET", _S, "read", _schedule_shown, "How a schedule stands", ScheduleInfo, Whom),
    RestRoute(
        "PUT",
        _S,
        "write",
        _declare,
        "Make a schedule be this",
        ScheduleInfo,
        Whom,
        ScheduleBody,
        one_users=False,
    ),
    RestRoute(
        "POST",
        f"{_S}/pause",
        "operate",
        _pause,
        "Let no tick of a schedule run",
        ScheduleInfo,
        Whom,
        one_users=False,
    ),
    RestRoute(
        "POST",
        f"{_S}/resume",
        "operate",
        _resume,
        "Let its ticks run again",
        ScheduleInfo,
        Whom,
        one_users=False,
    ),
    RestRoute(
        "DELETE",
        _S,
        "operate",
        _remove_schedule,
        "End a schedule",
        None,
        Whom,
        status=204,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/locks",
        "read",
        _locks,
        "Who holds locks, or leads names",
        Page[LockShown],
        LocksQuery,
        one_users=False,
    ),
    RestRoute(
        "POST",
        "/v1/locks/{lock}/break",
        "operate",
        _break,
        "Take a lock from whoever holds it with that token",
        None,
        body=BreakBody,
        status=204,
        one_users=False,
    ),
)
