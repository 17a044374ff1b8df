"""The one way to an action: may they, what stands before, the log, the change, and its end."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from stateward.actions.action import Action, ActionCall, Missing
from stateward.actions.action_log import ActionLog, outcome_of
from stateward.actions.arguments import check
from stateward.actions.page import Page, page_of
from stateward.errors import InvalidInput, NotPermitted


def permit(action: Action, call: ActionCall) -> None:
    """Raise `NotPermitted` if the principal may not, `InvalidInput` for what is out of bounds."""
    call.principal.require_right(action.right, action.role)
    if call.principal.user is not None and not action.for_one_user:
        raise NotPermitted("this key is for one user, and this does not belong to one user")
    check(call.arguments)
    for only in call.principal.only:
        only.require(action.noun, call.arguments)


async def narrow(action: Action, call: ActionCall) -> None:
    """Raise `NotPermitted` for what the principal's names leave out, `Missing` for nothing."""
    if not call.principal.only or action.info is None:
        return
    thing = await action.info(call)
    if thing is None and action.look_up is not None:
        raise action.missing(call)
    for only in call.principal.only:
        only.require(action.noun, thing)


class Prepared(NamedTuple):
    """An action that may be carried out, and what stands before; None: it was not looked up."""

    action: Action
    call: ActionCall
    before: Any

    def with_arguments(self, arguments: Any) -> Prepared:
        """Return the same with arguments that were filled in from what stands before."""
        return self._replace(call=self.call._replace(arguments=arguments))

    async def carry_out(self, recorder: ActionLog) -> Any:
        """Log the action, do it, and log how it ended; returns what its handler returns."""
        action, call = self.action, self.call
        if not recorder.takes(action):
            return await _done(action, call)
        if action.reads:
            value = await _done(action, call)
            await recorder.read(action, call)
            return value
        async with recorder.recording(action, call, self.before) as outcome:
            value = await _done(action, call)
            outcome |= outcome_of(value)
        return value


async def prepare(action: Action, call: ActionCall) -> Prepared:
    """Check what is asked for, and look up what stands before; raises `Missing` for nothing."""
    permit(action, call)
    await narrow(action, call)
    if action.look_up is None:
        return Prepared(action, call, None)
    before = await action.look_up(call)
    if before is None:
        raise action.missing(call)
    return Prepared(action, call, before)


async def carry_out(action: Action, call: ActionCall, recorder: ActionLog) -> Any:
    """Do what is asked for. A change that is not logged is one round trip: nothing is looked up."""
    if recorder.takes(action) and not action.reads:
        return await (await prepare(action, call)).carry_out(recorder)
    permit(action, call)
    await narrow(action, call)
    return await Prepared(action, call, None).carry_out(recorder)


async def _done(action: Action, call: ActionCall) -> Any:
    try:
        value = await action.carry_out(call)
    except InvalidInput as error:
        if isinstance(error, Missing | NotPermitted) or action.look_up is None:
            raise
        if await action.look_up(call) is None:
            raise action.missing(call) from error
        raise
    if action.cursor is not None:
        if not isinstance(value, Page):
            value = await page_of(value, call.arguments.limit, action.cursor)
        for only in call.principal.only:
            items = [item for item in value.items if only.allows(action.noun, item)]
            value = replace(value, items=items)
        return value
    if value is None and action.result is not None:  # what is to be read is not there
        raise action.missing(call)
    return value
