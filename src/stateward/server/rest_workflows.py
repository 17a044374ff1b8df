"""The REST API of workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NoReturn

from msgspec import Struct

from stateward.errors import InvalidInput, NotPermitted
from stateward.kinds import WORKFLOW
from stateward.ops import Log
from stateward.owner import owner_of
from stateward.records import WorkflowInfo, moment
from stateward.server.reply import Reply
from stateward.server.rest import (
    ChangeMade,
    Limit,
    Page,
    ReasonBody,
    ValueBody,
    Whom,
    answer,
    before_number,
    linked,
    missing,
    page,
    whose,
)
from stateward.server.route import KEY, RestCall, Routes
from stateward.state.handle import Handle
from stateward.state.run_record import entry_parts
from stateward.state.workflows import Workflow


class WorkflowsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which workflows, those first that were touched last."""

    user: str | None = None
    kind: str | None = None
    status: Literal["active", "completed", "failed", "cancelled"] | None = None
    limit: Limit = 100
    after: str | None = None


class RecordsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of what a workflow recorded, the newest page first, each oldest first."""

    user: str | None = None
    limit: Limit = 100
    after: str | None = None


class WorkflowRecord(Struct, frozen=True):
    """What a workflow recorded: a step with its result, a signal, a wait …"""

    number: int
    at: datetime
    what: str
    name: Any
    value: Any


class StartBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The kind of a workflow, and what it begins with."""

    kind: str
    input: Any = None


class StepForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of the new workflow, and the recorded step to fork before."""

    to: str
    at_step: str


class Begun(Struct, frozen=True):
    """The new workflow."""

    id: str


def _workflow(call: RestCall, **options: Any) -> Workflow:
    return call.store.workflow(call.path["workflow"], user=whose(call, call.query.user), **options)


WORKFLOWS = Routes()


@WORKFLOWS.route("GET /v1/workflows", "read", Page[WorkflowInfo], WorkflowsQuery)
async def _workflows(call: RestCall) -> Reply:
    """List workflows, newest first."""
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


@WORKFLOWS.logged("workflow read", reads=True)
@WORKFLOWS.route("GET /v1/workflows/{workflow}", "read", WorkflowInfo, Whom)
async def _workflow_shown(call: RestCall) -> Reply:
    """Get a workflow."""
    info = await _workflow(call).info()
    if info is None:
        raise missing("workflow", call.path["workflow"])
    return answer(info)


@WORKFLOWS.logged("workflow read", reads=True)
@WORKFLOWS.route("GET /v1/workflows/{workflow}/records", "read", Page[WorkflowRecord], RecordsQuery)
async def _records(call: RestCall) -> Reply:
    """List a workflow's records: steps with their results, signals, waits."""
    query: RecordsQuery = call.query
    scope = call.store.sections["workflows"]
    user = owner_of(whose(call, query.user))
    handle = Handle(scope, scope.entity(WORKFLOW, call.path["workflow"]), user)
    fetched = await handle.fetch(Log(0, before_number(query.after), last=query.limit, details=True))
    if not fetched.head.exists:
        raise missing("workflow", call.path["workflow"])
    entries = fetched.entries
    shown = [WorkflowRecord(entry.seq, moment(entry.at), *entry_parts(entry)) for entry in entries]
    following = str(entries[0].seq) if len(entries) == query.limit else None
    return answer(Page(shown, following), headers=linked(call, following))


@WORKFLOWS.logged("workflow delete", makes_room=True)
@WORKFLOWS.route("DELETE /v1/workflows/{workflow}", "operate", None, Whom, one_users=False)
async def _delete(call: RestCall) -> Reply:
    """Delete a workflow that no process is driving."""
    await _workflow(call).delete()
    return Reply(204)


@WORKFLOWS.route(
    "POST /v1/workflows/{workflow}/start",
    "write",
    ChangeMade,
    Whom,
    StartBody,
    status=201,
    writes=(WORKFLOW,),
)
async def _start(call: RestCall) -> Reply:
    """Start a workflow, for a worker to drive."""
    body: StartBody = call.body
    if call.asker.user is not None:
        call.asker.rights.require("starts", body.kind)
    begun = await _workflow(call, kind=body.kind, input=body.input).start()
    return answer(ChangeMade(begun), 201 if begun else 200)


async def _refuse(call: RestCall, error: InvalidInput) -> NoReturn:
    """Say that there is none, if that is why it cannot be done."""
    if await _workflow(call).info() is None:
        raise missing("workflow", call.path["workflow"]) from error
    raise error


async def _check_device(call: RestCall) -> None:
    """Refuse a signal that the user of the key may not send: an open question takes its answer."""
    signal = call.path["signal"]
    call.asker.rights.require("signals", signal)
    async for question in call.store.waiting(signal, user=call.asker.user):
        if question.workflow == call.path["workflow"]:
            raise NotPermitted(
                "a question waits for this signal, and takes its own answer alone: "
                f"POST /v1/waiting/{question.id}/answer"
            )


@WORKFLOWS.logged("workflow signal")
@WORKFLOWS.route(
    "POST /v1/workflows/{workflow}/signals/{signal}",
    "write",
    ChangeMade,
    Whom,
    ValueBody,
    status=201,
    headers=(KEY,),
    writes=(WORKFLOW,),
)
async def _signal(call: RestCall) -> Reply:
    """Send a signal to a workflow."""
    body: ValueBody = call.body
    key = call.headers.get(KEY.lower())
    if call.asker.user is not None:
        await _check_device(call)
    try:
        new = await _workflow(call).signal(call.path["signal"], body.value, key=key)
    except InvalidInput as error:
        await _refuse(call, error)
    headers = {} if new else {"idempotent-replayed": "true"}
    return answer(ChangeMade(new), 201 if new else 200, headers)


@WORKFLOWS.logged("workflow cancel")
@WORKFLOWS.route(
    "POST /v1/workflows/{workflow}/cancel", "operate", ChangeMade, Whom, ReasonBody, one_users=False
)
async def _cancel(call: RestCall) -> Reply:
    """Cancel a workflow and its children."""
    body: ReasonBody = call.body
    try:
        return answer(ChangeMade(await _workflow(call).cancel(body.reason)))
    except InvalidInput as error:
        await _refuse(call, error)


@WORKFLOWS.logged("workflow retry")
@WORKFLOWS.route(
    "POST /v1/workflows/{workflow}/retry", "operate", ChangeMade, Whom, one_users=False
)
async def _retry(call: RestCall) -> Reply:
    """Resume a workflow that failed or was cancelled."""
    try:
        return answer(ChangeMade(await _workflow(call).retry()))
    except InvalidInput as error:
        await _refuse(call, error)


@WORKFLOWS.logged("workflow fork", "to", "at_step")
@WORKFLOWS.route(
    "POST /v1/workflows/{workflow}/fork",
    "operate",
    Begun,
    Whom,
    StepForkBody,
    status=201,
    one_users=False,
)
async def _fork(call: RestCall) -> Reply:
    """Fork a workflow: start another one from before one of its steps."""
    body: StepForkBody = call.body
    try:
        await _workflow(call).fork(body.at_step, id=body.to)
    except InvalidInput as error:
        await _refuse(call, error)
    return answer(Begun(body.to), 201)
