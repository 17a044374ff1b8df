"""Actions on workflows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, ChangeMade, Cli, Mcp, Rest
from stateward.actions.arguments import After, Arguments, Id, Key, Limit, Name, User, Words
from stateward.actions.page import Page
from stateward.errors import InvalidInput, NotPermitted
from stateward.kinds import WORKFLOW
from stateward.ops import Log
from stateward.owner import owner_of
from stateward.records import WorkflowInfo, moment
from stateward.state.handle import Handle
from stateward.state.run_record import entry_parts
from stateward.state.workflows import Workflow

STATUS = Literal["active", "completed", "failed", "cancelled"] | None


def _workflow(call: ActionCall, **options: Any) -> Workflow:
    return call.store.workflow(call.arguments.workflow, user=call.whose, **options)


async def _info(call: ActionCall) -> WorkflowInfo | None:
    return await _workflow(call).info()


WORKFLOWS = Actions(WORKFLOW, _info)


class OneWorkflow(Arguments, frozen=True):
    """Which workflow."""

    workflow: Id
    user: User = None


class ListWorkflows(Arguments, frozen=True):
    """Which workflows, those first that were touched last."""

    user: User = None
    kind: Annotated[Name | None, "Only those of this kind, e.g. refund."] = None
    status: Annotated[STATUS, "Only those with this status; active: not at their end."] = None
    limit: Limit = 100
    after: After = None


@WORKFLOWS.list(
    ListWorkflows,
    WorkflowInfo,
    lambda info: info.cursor,
    for_one_user=True,
    rest=Rest("GET /v1/workflows"),
    mcp=Mcp(
        "list_workflows",
        "List durable workflows, by default the unfinished ones, with what each waits for and the "
        "last error of a step.",
        {"status": "active"},
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[WorkflowInfo]:
    """List workflows, newest first."""
    asked: ListWorkflows = call.arguments
    return call.store.workflows(
        kind=asked.kind,
        user=call.whose,
        status=asked.status,
        order="recent",
        before=asked.after,
        limit=asked.limit,
    )


@WORKFLOWS.read(
    "show", OneWorkflow, WorkflowInfo, for_one_user=True, rest=Rest("GET /v1/workflows/{workflow}")
)
async def _show(call: ActionCall) -> WorkflowInfo | None:
    """Get a workflow."""
    return await _info(call)


class RecordsOfWorkflow(OneWorkflow, frozen=True, kw_only=True):
    """A page of what a workflow recorded, the newest page first, each oldest first."""

    limit: Limit = 100
    after: After = None


class WorkflowRecord(Struct, frozen=True):
    """What a workflow recorded: a step with its result, a signal, a wait …"""

    number: int
    at: datetime
    what: str
    name: Any
    value: Any


@WORKFLOWS.read(
    "records",
    RecordsOfWorkflow,
    Page[WorkflowRecord],
    for_one_user=True,
    rest=Rest("GET /v1/workflows/{workflow}/records"),
)
async def _records(call: ActionCall) -> Page[WorkflowRecord] | None:
    """List a workflow's records: steps with their results, signals, waits."""
    asked: RecordsOfWorkflow = call.arguments
    scope = call.store.sections["workflows"]
    handle = Handle(scope, scope.entity(WORKFLOW, asked.workflow), owner_of(call.whose))
    log = Log(0, before_number(asked.after), last=asked.limit, details=True)
    fetched = await handle.fetch(log)
    if not fetched.head.exists:
        return None
    records = [
        WorkflowRecord(entry.seq, moment(entry.at), *entry_parts(entry))
        for entry in fetched.entries
    ]
    return Page(records, str(records[0].number) if len(records) == asked.limit else None)


def before_number(after: str | None) -> int | None:
    """Return the last number that a page of older entries may have; None: from the newest on."""
    if after is None:
        return None
    if not after.isascii() or not after.isdigit() or len(after) > 15:
        raise InvalidInput(f"{after!r} is not a position in a list: pass `next` unchanged")
    return max(0, int(after) - 1)


@WORKFLOWS.change(
    "delete",
    OneWorkflow,
    None,
    makes_room=True,
    rest=Rest("DELETE /v1/workflows/{workflow}"),
    cli=Cli(
        """\
Deletes its records, and what belongs to it. One that a process is driving is left alone: cancel it
first.

examples:
  stateward workflow delete sqlite:///agents.db refund-991 --dry-run
  stateward workflow delete sqlite:///agents.db refund-991 --yes""",
        "Delete the workflow {workflow!r}, which is {status}",
        "deleted",
    ),
)
async def _delete(call: ActionCall) -> None:
    """Delete a workflow that no process is driving."""
    await _workflow(call).delete()


class StartWorkflow(OneWorkflow, frozen=True, kw_only=True):
    """The kind of a workflow, and what it begins with."""

    kind: Name
    input: Any = None


@WORKFLOWS.change(
    "start",
    StartWorkflow,
    ChangeMade,
    role="agent",
    unlogged="agents start workflows all the time, and its record says when",
    look_up=None,
    for_one_user=True,
    rest=Rest("POST /v1/workflows/{workflow}/start", "StartBody", 201, (WORKFLOW,)),
)
async def _start(call: ActionCall) -> ChangeMade:
    """Start a workflow, for a worker to drive."""
    asked: StartWorkflow = call.arguments
    call.principal.require_name("starts", asked.kind)
    return ChangeMade(await _workflow(call, kind=asked.kind, input=asked.input).start())


class SignalWorkflow(OneWorkflow, frozen=True, kw_only=True):
    """The value of a signal."""

    signal: Name
    value: Annotated[Any, "The signal's value."] = None
    key: Key = None


@WORKFLOWS.change(
    "signal",
    SignalWorkflow,
    ChangeMade,
    role="agent",
    logs=("signal",),
    for_one_user=True,
    rest=Rest("POST /v1/workflows/{workflow}/signals/{signal}", "ValueBody", 201, (WORKFLOW,)),
    cli=Cli(
        """\
The value is JSON, null by default. With --key a duplicate delivery of the signal counts once. A
workflow that has ended takes no signal.

examples:
  stateward workflow signal sqlite:///agents.db refund-991 approval --value true
  stateward workflow signal sqlite:///agents.db refund-991 approval --key ticket-7 --yes""",
        "Send the signal {signal!r} with {value} to the workflow {workflow!r}",
        "signalled",
        answers=(
            "the workflow {workflow!r} was sent the signal {signal!r}",
            "the workflow {workflow!r} already had the signal {signal!r} with this key",
        ),
    ),
)
async def _signal(call: ActionCall) -> ChangeMade:
    """Send a signal to a workflow."""
    asked: SignalWorkflow = call.arguments
    await _check_device(call)
    sent = await _workflow(call).signal(asked.signal, asked.value, key=asked.key)
    return ChangeMade(sent)


async def _check_device(call: ActionCall) -> None:
    """Refuse a signal that a user's device may not send: an open question takes its answer."""
    asked: SignalWorkflow = call.arguments
    call.principal.require_name("signals", asked.signal)
    if call.principal.user is None:
        return
    async for question in call.store.waiting(asked.signal, user=call.principal.user):
        if question.workflow == asked.workflow:
            raise NotPermitted(
                "a question waits for this signal, and takes its own answer alone: "
                f"POST /v1/waiting/{question.id}/answer"
            )


class CancelWorkflow(OneWorkflow, frozen=True, kw_only=True):
    """The reason, shown to later readers."""

    reason: Annotated[Words, "The reason, shown to later readers."] = ""


@WORKFLOWS.change(
    "cancel",
    CancelWorkflow,
    ChangeMade,
    rest=Rest("POST /v1/workflows/{workflow}/cancel", "ReasonBody"),
    cli=Cli(
        """\
Cancels it with its children, whichever process drives it: the driver finishes its current step and
stops. What was recorded stays. stateward workflow retry resumes it.

examples:
  stateward workflow cancel sqlite:///agents.db refund-991 --reason "wrong order" --dry-run
  stateward workflow cancel sqlite:///agents.db refund-991 --reason "wrong order" --yes""",
        "Cancel the workflow {workflow!r}, which is {status}, and its children",
        "cancelled",
    ),
)
async def _cancel(call: ActionCall) -> ChangeMade:
    """Cancel a workflow and its children."""
    return ChangeMade(await _workflow(call).cancel(call.arguments.reason))


@WORKFLOWS.change(
    "retry",
    OneWorkflow,
    ChangeMade,
    rest=Rest("POST /v1/workflows/{workflow}/retry"),
    cli=Cli(
        """\
Resumes a workflow that failed (after its code was fixed) or was cancelled: a worker continues from
the step that failed. Recorded steps are not run again.

examples:
  stateward workflow retry sqlite:///agents.db refund-991 --dry-run
  stateward workflow retry sqlite:///agents.db refund-991 --yes""",
        "Retry the workflow {workflow!r}, which is {status}, from the step that failed",
        "retried",
    ),
)
async def _retry(call: ActionCall) -> ChangeMade:
    """Resume a workflow that failed or was cancelled."""
    return ChangeMade(await _workflow(call).retry())


class ForkWorkflow(OneWorkflow, frozen=True, kw_only=True):
    """The id of the new workflow, and the recorded step to fork before."""

    to: Annotated[Id, "The id of the new workflow."]
    at_step: Annotated[Name, "The step to fork before, e.g. pay#1."]


class Begun(Struct, frozen=True):
    """The new workflow."""

    id: str


@WORKFLOWS.change(
    "fork",
    ForkWorkflow,
    Begun,
    logs=("to", "at_step"),
    rest=Rest("POST /v1/workflows/{workflow}/fork", "StepForkBody", 201),
    cli=Cli(
        """\
Starts another workflow from the state this one had before a step; a worker continues it. It has the
same kind, input and user; this one does not change. stateward workflow show lists the steps.

examples:
  stateward workflow fork sqlite:///agents.db refund-991 --at "pay#1" --to refund-991-b --dry-run
  stateward workflow fork sqlite:///agents.db refund-991 --at "pay#1" --to refund-991-b --yes""",
        "Fork the workflow {workflow!r} before {at_step!r} as {to!r}",
        "forked",
        options={"at_step": "at"},
    ),
)
async def _fork(call: ActionCall) -> Begun:
    """Fork a workflow: start another one from before one of its steps."""
    asked: ForkWorkflow = call.arguments
    await _workflow(call).fork(asked.at_step, id=asked.to)
    return Begun(asked.to)
