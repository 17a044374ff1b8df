"""Tools that list work and open questions, and show the health of the store."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from stateward.mcp.arguments import After, Limit, User
from stateward.mcp.size import ToolPage, listed_page
from stateward.mcp.tool import ToolCall, Tools
from stateward.records import EffectInfo, OpenQuestion, TaskInfo, WorkflowInfo


class ListQuestions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which open questions."""

    user: User = None
    signal: Annotated[
        str | None, Meta(description="Only those that wait for this signal, e.g. approval.")
    ] = None
    for_whom: Annotated[
        str | None, Meta(description="Only those that this person or team is to answer.")
    ] = None
    limit: Limit = 20
    after: After = None


class ListTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks."""

    user: User = None
    status: Annotated[
        Literal["pending", "running", "completed", "failed", "cancelled"] | None,
        Meta(description="Only those with this status."),
    ] = None
    limit: Limit = 20
    after: After = None


class ListWorkflows(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflows."""

    user: User = None
    status: Annotated[
        Literal["active", "completed", "failed", "cancelled"] | None,
        Meta(description="Only those with this status; active: not at their end."),
    ] = "active"
    kind: Annotated[str | None, Meta(description="Only those of this kind, e.g. refund.")] = None
    limit: Limit = 20
    after: After = None


class ListEffects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which effects."""

    user: User = None
    status: Annotated[
        Literal["intended", "done", "failed", "unknown"] | None,
        Meta(description="Only those with this status; unknown: a person has to decide."),
    ] = "unknown"
    limit: Limit = 20
    after: After = None


WORK_READS = Tools()


@WORK_READS.tool(
    ListQuestions,
    ToolPage[OpenQuestion],
    "List what workflows ask people and wait for, such as approvals, the oldest first.",
)
async def list_questions(call: ToolCall) -> ToolPage[OpenQuestion]:
    given: ListQuestions = call.given
    listing = call.store.waiting(
        given.signal, for_=given.for_whom, user=call.whose, after=given.after, limit=given.limit
    )
    return await listed_page(listing, given.limit, lambda it: it.id)


@WORK_READS.tool(
    ListTasks,
    ToolPage[TaskInfo],
    "List run-once tasks and their status, the last changed first: pending and running ones "
    "are not finished, failed ones have their error.",
)
async def list_tasks(call: ToolCall) -> ToolPage[TaskInfo]:
    given: ListTasks = call.given
    listing = call.store.tasks(
        given.status, user=call.whose, order="recent", before=given.after, limit=given.limit
    )
    return await listed_page(listing, given.limit, lambda it: it.cursor)


@WORK_READS.tool(
    ListWorkflows,
    ToolPage[WorkflowInfo],
    "List durable workflows, by default the unfinished ones, with what each waits for and the "
    "last error of a step.",
)
async def list_workflows(call: ToolCall) -> ToolPage[WorkflowInfo]:
    given: ListWorkflows = call.given
    listing = call.store.workflows(
        kind=given.kind,
        user=call.whose,
        status=given.status,
        order="recent",
        before=given.after,
        limit=given.limit,
    )
    return await listed_page(listing, given.limit, lambda it: it.cursor)


@WORK_READS.tool(
    ListEffects,
    ToolPage[EffectInfo],
    "List what agents' tools did in other systems (payments, emails …), by default those whose "
    "outcome is unknown, so that a person has to decide.",
)
async def list_effects(call: ToolCall) -> ToolPage[EffectInfo]:
    given: ListEffects = call.given
    listing = call.store.effects(
        given.status, user=call.whose, after=given.after, limit=given.limit
    )
    return await listed_page(listing, given.limit, lambda it: it.cursor)


class NoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing need be said."""


class HealthAnswer(Struct, frozen=True):
    """Whether the store answers, and how it is set up; `latency` is in seconds."""

    ok: bool
    engine: str | None
    version: str | None
    durability: str | None
    bytes: int | None
    latency: float | None
    breaker: str
    alarms: list[str]


async def health(call: ToolCall) -> HealthAnswer:
    it, asker = await call.store.health(), call.caller.asker
    is_tenants = asker.is_credential and asker.namespaces is not None
    return HealthAnswer(
        *(
            it.ok,
            it.engine,
            it.version,
            it.durability,
            None if is_tenants else it.bytes,
            it.latency,
            it.breaker,
        ),
        list(it.alarms),
    )
