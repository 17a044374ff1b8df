"""Routes of actions: what each takes and returns over HTTP, made from its row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from stateward.actions.action import Action, ActionCall, ChangeMade, Missing
from stateward.actions.action_log import ActionLog
from stateward.actions.arguments import Nothing, header_of
from stateward.actions.carry_out import carry_out
from stateward.actions.page import Page
from stateward.actions.rights import SCOPE_OF
from stateward.server.reply import Reply
from stateward.server.rest import answer, linked
from stateward.server.route import KEY, RestCall, RestRoute, RouteDeed

IN_QUERY = ("user",)  # whichever the method


def routes_of(actions: Iterable[Action]) -> list[RestRoute]:
    """Return the routes of those actions that have one."""
    return [_route(row) for row in actions if row.rest is not None]


def _route(row: Action) -> RestRoute:
    assert row.rest is not None
    method, _, path = row.rest.asked.partition(" ")
    fields = {each.name: each for each in msgspec.structs.fields(row.arguments)}
    for part in path.split("/"):
        fields.pop(part.strip("{}"), None)
    headers = {n: header for n, each in fields.items() if (header := header_of(each)) is not None}
    rest = [each for name, each in fields.items() if name not in headers]
    in_query = [each for each in rest if method == "GET" or each.name in IN_QUERY]
    in_body = [each for each in rest if each not in in_query]
    deed = None
    if row.log is not None:
        deed = RouteDeed(row.log, row.kind, row.about, row.logs, row.reads, row.makes_room)
    return RestRoute(
        method,
        path,
        SCOPE_OF[row.role],
        _unlogged,
        row.purpose,
        row.result,
        _struct(f"{row.arguments.__name__}Query", "", in_query),
        _struct(row.rest.body, row.arguments.__doc__ or "", in_body) if in_body else None,
        row.rest.status or (204 if row.result is None else 200),
        tuple(headers.values()),
        one_users=row.for_one_user,
        writes=row.rest.writes,
        deed=deed,
        action=row,
    )


async def _unlogged(call: RestCall) -> Reply:
    raise AssertionError("an action is answered by answer_action alone")


_MADE: dict[tuple[str, ...], type[Struct]] = {}


def _struct(name: str, doc: str, fields: list[FieldInfo]) -> type[Struct]:
    """Return one type for all that have the same name and fields, so that it is published once."""
    if not fields:
        return Nothing
    names = {each.name: each.encode_name for each in fields}
    key = (name, *names)
    if key not in _MADE:
        _MADE[key] = msgspec.defstruct(
            name,
            [(each.name, each.type, _default(each)) for each in fields],
            namespace={"__doc__": doc},
            rename=names,
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        )
    return _MADE[key]


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field(default=field.default)


@cache
def _headers(arguments: type[Struct]) -> Mapping[str, str]:
    """Return the arguments that come in a header, with its name in lower case."""
    fields = msgspec.structs.fields(arguments)
    return {each.name: header.lower() for each in fields if (header := header_of(each))}


async def answer_action(call: RestCall, action: Action, recorder: ActionLog) -> Reply:
    """Carry out an action, and return what it returns as its route has it."""
    values: dict[str, Any] = {**call.path}
    for part in (call.query, call.body):
        if part is not None:
            values |= {name: getattr(part, name) for name in part.__struct_fields__}
    for name, header in _headers(action.arguments).items():
        if header in call.headers:
            values[name] = call.headers[header]
    asked = ActionCall(call.asker, call.store, action.arguments(**values))
    assert action.rest is not None
    try:
        value = await carry_out(action, asked, recorder)
    except Missing:
        if action.rest.asked.startswith("DELETE") and call.asker.user is None:
            return Reply(204)  # it is as if it had been deleted before
        raise
    if value is None:
        return Reply(204)
    status, headers = action.rest.status or 200, {}
    if isinstance(value, ChangeMade) and not value.changed:
        status = 200
        if KEY.lower() in _headers(action.arguments).values():
            headers["idempotent-replayed"] = "true"
    if isinstance(value, Page):
        headers = linked(call, value.next)
    return answer(value, status, headers)
