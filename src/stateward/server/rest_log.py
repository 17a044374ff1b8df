"""Entries of requests in the operations log, as the rows of the routes describe them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from stateward.actions.action import Action
from stateward.actions.action_log import LOOK_SPAN, ActionLog
from stateward.observe.correlation import correlation_id
from stateward.records import moment
from stateward.server.reply import Reply
from stateward.server.rest_actions import answer_action
from stateward.server.route import RestCall, RestRoute, RouteDeed
from stateward.state.operation_record import DONE, target_of
from stateward.state.operations_log import OperationsLog

NEW = "new"  # the id of what has none before it is done
LOOK = "stateward-look"  # the header with the number of the entry that says it was read


async def answered(
    call: RestCall,
    route: RestRoute,
    log_of: Callable[[str | None], OperationsLog],
    look: str | None = None,
) -> Reply:
    """Return the answer of the route. An operator's change is logged before it is made.

    What an operator reads is in it before it is handed over, and the answer names the entry: who
    continues looking at the same thing says its number as `look`, and adds none. Keys that are not
    for operators are those of agents and of their users: what they do is not done by hand.
    """
    deed = route.deed
    if route.action is not None:
        return await _action_answered(call, route.action, log_of(None), look)
    if deed is None or not call.asker.is_operator:
        return await route.answer(call)
    who, kind = call.asker.who, deed.kind if isinstance(deed.kind, str) else deed.kind(call)
    id = call.path.get(deed.name) or str(getattr(call.query, deed.name, NEW))
    detail, correlation = _detail(call, deed), correlation_id()
    log = log_of(deed.namespace)
    if not deed.reads:
        async with log.recording(
            *(who, deed.what, kind, id),
            detail=detail,
            correlation=correlation,
            makes_room=deed.makes_room,
        ) as outcome:
            reply = await route.answer(call)
            outcome |= {"status": reply.status, **reply.told}
        return reply
    reply = await route.answer(call)
    try:
        if reply.body.data or reply.events is not None:
            number = await _told(call, log, look, (who, deed.what, target_of(kind, id)))
            if number is None:
                number = await log.record(
                    *(who, deed.what, kind, id), detail=detail, correlation=correlation
                )
            reply = reply._replace(headers={**reply.headers, LOOK: str(number)})
    except BaseException:
        if reply.events is not None:
            await reply.events.aclose()
        raise
    return reply


async def _action_answered(
    call: RestCall, action: Action, log: OperationsLog, look: str | None
) -> Reply:
    is_operator = call.asker.is_operator
    recorder = ActionLog(log, "rest", changes=is_operator, reads=is_operator, look=look)
    reply = await answer_action(call, action, recorder)
    if recorder.number is None:
        return reply
    return reply._replace(headers={**reply.headers, LOOK: str(recorder.number)})


async def _told(
    call: RestCall, log: OperationsLog, look: str | None, deed: tuple[str, str, str]
) -> int | None:
    """The number that was said, if that entry says the same of the same, and not long ago."""
    if look is None or re.fullmatch(r"[1-9][0-9]{0,14}", look) is None:
        return None
    number, now = int(look), moment(call.store.sections["workflows"].world.now())
    async for entry in log.entries(number - 1, upto=number):
        same = (entry.who, entry.what, entry.target, entry.outcome) == (*deed, DONE)
        return number if same and entry.at > now - LOOK_SPAN else None
    return None


def _detail(call: RestCall, deed: RouteDeed) -> dict[str, Any]:
    """The other names of the path, and what its row names. No values, and no words."""
    detail: dict[str, Any] = {name: of for name, of in call.path.items() if name != deed.name}
    for name in deed.detail:
        value = getattr(call.body, name, None)
        value = getattr(call.query, name, None) if value is None else value
        if value is not None:
            detail[name] = value if isinstance(value, bool | int | str) else str(value)
    return detail
