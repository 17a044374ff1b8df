"""Entries of actions in the operations log: the same fields, whichever interface was used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from stateward.actions.action import Action, ActionCall
from stateward.observe.correlation import correlation_id
from stateward.records import moment
from stateward.state.operation_record import DONE, target_of
from stateward.state.operations_log import OperationsLog

LOOK_SPAN = timedelta(hours=1)  # for so long it is one look
OF_RESULT = ("changed", "status", "trimmed")  # fields of a result that are logged, if it has them


class ActionLog:
    """The part of a principal's actions that is logged, and the interface they came through."""

    def __init__(
        self,
        log: OperationsLog,
        interface: str,
        *,
        changes: bool = True,
        reads: bool = True,
        look: str | None = None,
    ) -> None:
        self._log = log
        self._interface = interface
        self._changes = changes
        self._reads = reads
        self._look = look
        self.number: int | None = None  # of the entry about what was read

    def takes(self, action: Action) -> bool:
        """Return whether the action is logged."""
        return action.log is not None and (self._reads if action.reads else self._changes)

    def recording(
        self, action: Action, call: ActionCall, before: Any
    ) -> AbstractAsyncContextManager[dict[str, Any]]:
        """Return the block to make the change in: see `OperationsLog.recording`."""
        assert action.log is not None
        return self._log.recording(
            call.principal.who,
            action.log,
            *action.target(call),
            detail=self._detail(action, call, before),
            correlation=correlation_id(),
            makes_room=action.makes_room,
        )

    async def read(self, action: Action, call: ActionCall) -> None:
        """Log that something was read, before it is handed over.

        `look` is the number of an entry that said so before: whoever continues looking at the same
        thing adds no other.
        """
        assert action.log is not None
        who, (kind, id) = call.principal.who, action.target(call)
        if await self._continues(call, (who, action.log, target_of(kind, id))):
            return
        detail = self._detail(action, call, None)
        self.number = await self._log.record(who, action.log, kind, id, detail=detail)

    async def _continues(self, call: ActionCall, expected: tuple[str, str, str]) -> bool:
        if self._look is None or re.fullmatch(r"[1-9][0-9]{0,14}", self._look) is None:
            return False
        number, now = int(self._look), moment(call.store.sections["workflows"].world.now())
        async for entry in self._log.entries(number - 1, upto=number):
            same = (entry.who, entry.what, entry.target, entry.outcome) == (*expected, DONE)
            if same and entry.at > now - LOOK_SPAN:
                self.number = number
                return True
        return False

    def _detail(self, action: Action, call: ActionCall, before: Any) -> dict[str, Any]:
        detail: dict[str, Any] = {"interface": self._interface}
        for name in action.before if before is not None else ():
            detail["before" if name == "status" else name] = _plain(getattr(before, name))
        for name in action.logs:
            value = getattr(call.arguments, name)
            if value is not None:
                detail[name] = _plain(value)
        return detail


def outcome_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of a result that are logged."""
    return {name: _plain(getattr(value, name)) for name in OF_RESULT if hasattr(value, name)}


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | str | dict) else str(value)
