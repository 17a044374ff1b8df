"""What a run of an agent knows of its conversation, from its beginning to its end."""

from __future__ import annotations

from contextvars import ContextVar
from weakref import ref

from stateward.integrations.agent_framework.messages import Kept
from stateward.integrations.turns import AgentRun
from stateward.ops import Entity
from stateward.records import Cursor


class GivenHistory:
    """What a run was given at its beginning, and has added: lives as long as the run does."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity
        self.messages: list[Kept] | None = None  # None: nothing was read
        self.cursor: Cursor | None = None
        self.around = [each for each in _entered.get() if each() is not None]

    @property
    def run(self) -> AgentRun:
        return AgentRun(self, self)

    def enter(self) -> None:
        """Runs that are begun from here on, e.g. by a tool, are within this one."""
        _entered.set((*self.around, ref(self)))

    def ends_at(self, messages: list[Kept], cursor: Cursor) -> None:
        """It has added something: part of what the runs around it have added."""
        for given in (self, *(each() for each in self.around)):
            if given is not None and given.entity == self.entity and given.messages is not None:
                given.messages, given.cursor = messages, cursor


READING: ContextVar[GivenHistory | None] = ContextVar("READING", default=None)
_entered: ContextVar[tuple[ref[GivenHistory], ...]] = ContextVar("_entered", default=())
