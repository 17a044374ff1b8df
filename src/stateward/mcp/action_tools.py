"""Tools of actions: their arguments with descriptions for a model, made from their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, cast, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from stateward.actions.action import Action, ActionCall, whole
from stateward.actions.action_log import ActionLog
from stateward.actions.arguments import about
from stateward.actions.carry_out import carry_out
from stateward.mcp.arguments import Limit
from stateward.mcp.size import ToolPage, page_of
from stateward.mcp.tool import McpTool, ToolCall
from stateward.owner import Whose
from stateward.server.asker import Asker

ITEMS = 20  # of a list, if a model does not say how many


class Model(NamedTuple):
    """A model that asks, with the rights of a key, under the name of who runs it."""

    asker: Asker
    who: str

    @property
    def user(self) -> str | None:
        return self.asker.user

    def require_right(self, right: str) -> None:
        self.asker.require_right(right)

    def require_name(self, what: str, name: str) -> None:
        self.asker.require_name(what, name)

    def whose(self, user: str | None) -> Whose:
        return self.asker.whose(user)


def tools_of(actions: Iterable[Action], *, reads: bool) -> list[McpTool]:
    """Return the tools of those actions that have one: those that only read, or the others."""
    return [_tool(row) for row in actions if row.mcp is not None and row.reads == reads]


def _tool(row: Action) -> McpTool:
    assert row.mcp is not None
    output = row.result
    if row.cursor is not None:
        (item,) = get_args(row.result)
        output = cast(Any, ToolPage)[item]

    async def answer(call: ToolCall) -> Any:
        return await _answered(row, call)

    arguments = _arguments(row)
    return McpTool(
        row.mcp.name,
        answer,
        arguments,
        output,
        row.mcp.description,
        one_users=row.for_one_user,
        action=row,
    )


async def _answered(row: Action, call: ToolCall) -> Any:
    caller = call.caller
    log = caller.store.within(caller.namespace).operations
    interface = "mcp" if call.client is None else f"mcp: {call.client}"
    recorder = ActionLog(log, interface, reads=caller.logs_reads)
    asked = ActionCall(
        Model(caller.asker, caller.who), call.store, row.arguments(**whole(call.given))
    )
    value = await carry_out(row, asked, recorder)
    if row.cursor is None:
        return value
    limit = asked.arguments.limit
    return page_of(value.items, limit, row.cursor, more=value.next is not None)


def _arguments(row: Action) -> type[Struct]:
    """Return the type of a tool's arguments."""
    assert row.mcp is not None
    fields = msgspec.structs.fields(row.arguments)
    return msgspec.defstruct(
        row.arguments.__name__,
        [(each.name, _type(each), _default(row, each)) for each in fields],
        namespace={"__doc__": row.arguments.__doc__},
        rename={each.name: each.encode_name for each in fields},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _type(field: FieldInfo) -> Any:
    sentence = about(field)
    if field.name == "limit":
        return Limit
    return Annotated[field.type, Meta(description=sentence)] if sentence else field.type


def _default(row: Action, field: FieldInfo) -> Any:
    assert row.mcp is not None
    if field.name in row.mcp.required:
        return msgspec.field()
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    default = ITEMS if field.name == "limit" else field.default
    return msgspec.field(default=row.mcp.defaults.get(field.name, default))
