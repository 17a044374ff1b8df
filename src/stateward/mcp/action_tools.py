"""Tools of actions: their arguments with descriptions for a model, made from their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, cast, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from stateward.actions.action import Action, ActionCall, ChangeMade, whole
from stateward.actions.action_log import ActionLog
from stateward.actions.arguments import about
from stateward.actions.carry_out import carry_out
from stateward.actions.rights import Only
from stateward.errors import InvalidInput, NotPermitted
from stateward.mcp.size import MOST, ToolPage, page_of, short
from stateward.mcp.tool import McpTool, ToolCall, ToolCaller
from stateward.owner import Whose

Limit = Annotated[int, Meta(ge=1, le=100, description="How many at most, 1 to 100.")]
ITEMS = 20  # of a list, if a model does not say how many


class Model(NamedTuple):
    """A model that asks, with the rights of a key, under the name of who runs it."""

    caller: ToolCaller

    @property
    def who(self) -> str:
        return self.caller.who

    @property
    def user(self) -> str | None:
        return self.caller.asker.user

    @property
    def only(self) -> tuple[Only, ...]:
        return self.caller.asker.only

    def require_right(self, right: str, least: str) -> None:
        self.caller.asker.require_right(right, least)

    def require_name(self, what: str, name: str) -> None:
        self.caller.asker.require_name(what, name)

    def whose(self, user: str | None) -> Whose:
        if self.user is not None and user not in (None, self.user):
            raise NotPermitted("this server is for one user, and that is another: leave out user")
        return self.caller.asker.whose(user)


def tools_of(actions: Iterable[Action], *, reads: bool) -> list[McpTool]:
    """Return the tools of those actions that have one: those that only read, or the others."""
    return [_tool(row) for row in actions if row.mcp is not None and row.reads == reads]


def _tool(row: Action) -> McpTool:
    assert row.mcp is not None
    output = ChangeMade if row.result is None else row.result
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
        (row.right, row.role),
        one_users=row.for_one_user,
        action=row,
    )


async def _answered(row: Action, call: ToolCall) -> Any:
    caller = call.caller
    log = caller.store.within(caller.namespace).operations
    interface = "mcp" if call.client is None else f"mcp: {call.client}"
    model, values = Model(caller), whole(call.given)
    if _names_user(row):
        user = model.whose(values["user"])
        if not isinstance(user, str):
            raise InvalidInput("pass user: the id of the user whose documents are meant")
        values["user"] = user
    asked = ActionCall(model, call.store, row.arguments(**values))
    value = await carry_out(row, asked, ActionLog(log, interface, reads=caller.logs_reads))
    if row.cursor is None:
        return ChangeMade(True) if value is None else short(value, MOST)
    limit = asked.arguments.limit
    return page_of(value.items, limit, row.cursor, more=value.next is not None)


def _names_user(row: Action) -> bool:
    """Return whether the action needs a user, whom a server for one user does not ask for."""
    fields = msgspec.structs.fields(row.arguments)
    return any(each.name == "user" and each.required for each in fields)


def _arguments(row: Action) -> type[Struct]:
    """Return the type of a tool's arguments."""
    assert row.mcp is not None
    fields = [
        each for each in msgspec.structs.fields(row.arguments) if each.name not in row.mcp.without
    ]
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
    type = field.type | None if field.name == "user" else field.type
    return Annotated[type, Meta(description=sentence)] if sentence else type


def _default(row: Action, field: FieldInfo) -> Any:
    assert row.mcp is not None
    if field.name in row.mcp.required:
        return msgspec.field()
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    default = {"limit": ITEMS, "user": None}.get(field.name, field.default)
    return msgspec.field(default=row.mcp.defaults.get(field.name, default))
