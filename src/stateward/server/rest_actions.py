"""Routes of actions: what each takes and returns over HTTP, made from its row."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from stateward.actions.action import Action, ActionCall, ChangeMade, Missing
from stateward.actions.arguments import Nothing, header_of
from stateward.actions.carry_out import carry_out
from stateward.actions.page import Page
from stateward.actions.rights import SCOPE_OF
from stateward.actions.versions import etag
from stateward.records import Cursor
from stateward.server.reply import Reply
from stateward.server.rest import answer, events, linked
from stateward.server.route import KEY, RestCall, RestRoute
from stateward.wire import EVENTS

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
    in_query = [each for each in rest if method in ("GET", "DELETE") or each.name in IN_QUERY]
    in_body = [each for each in rest if each not in in_query]
    return RestRoute(
        method,
        path,
        row.right,
        SCOPE_OF[row.role],
        partial(answer_action, row),
        row.purpose,
        row.result,
        _struct(f"{row.arguments.__name__}Query", "", in_query),
        _struct(row.rest.body, row.arguments.__doc__ or "", in_body) if in_body else None,
        row.rest.status or (204 if row.result is None else 200),
        tuple(dict.fromkeys(headers.values())),
        gives=row.rest.gives,
        one_users=row.for_one_user,
        writes=row.rest.writes,
        action=row,
    )


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


def asked_of(call: RestCall, action: Action, **given: Any) -> ActionCall:
    """Return what a request asks for; `given` are arguments that come neither by name nor whole."""
    values: dict[str, Any] = {**call.path}
    for part in (call.query, call.body):
        if isinstance(part, Struct):
            values |= {name: getattr(part, name) for name in part.__struct_fields__}
    for name, header in _headers(action.arguments).items():
        if header in call.headers and not given:
            values[name] = call.headers[header]
    return ActionCall(call.asker, call.store, action.arguments(**values | given))


async def answer_action(action: Action, call: RestCall) -> Reply:
    """Carry out an action, and return what it returns as its route has it."""
    asked = asked_of(call, action)
    assert action.rest is not None
    try:
        value = await carry_out(action, asked, call.log)
    except Missing:
        if not action.rest.asked.startswith("DELETE") or call.asker.user is not None:
            raise
        # It is as if it had been deleted before; a deletion that was interrupted is completed.
        value = await action.carry_out(asked)
    if value is None:
        return Reply(204)
    status, headers = action.rest.status or 200, {}
    if isinstance(value, AsyncGenerator):
        has_events = action.rest.gives == EVENTS
        stream = events(value) if has_events else value
        follows = has_events and getattr(asked.arguments, "follow", True)
        return Reply(
            200, headers={"content-type": action.rest.gives}, events=stream, follows=follows
        )
    if action.rest.etag:
        at = Cursor.of(value.cursor)
        headers["etag"] = etag(at.version, at.stamp)
    if isinstance(value, ChangeMade) and not value.changed:
        status = 200
        if KEY.lower() in _headers(action.arguments).values():
            headers["idempotent-replayed"] = "true"
    if isinstance(value, Page):
        headers = linked(call, value.next)
    return answer(value, status, headers)
