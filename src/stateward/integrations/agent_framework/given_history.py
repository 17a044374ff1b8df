"""The history that a run of an agent was given, from its beginning to its end."""

from __future__ import annotations

from contextvars import ContextVar
from weakref import ref

from stateward.integrations.agent_framework.messages import Kept
from stateward.integrations.turns import AgentRun
from stateward.ops import Entity
from stateward.records import Cursor
from stateward.state.conversation_life import Life


class GivenHistory:
    """The messages that a run began with, and the messages that the run has added."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity
        self.messages: list[Kept] | None = None  # None: nothing was read
        self.cursor: Cursor | None = None
        self.life: Life | None = None
        self.around = [each for each in _entered.get() if each() is not None]

    @property
    def run(self) -> AgentRun:
        return AgentRun(self, self)

    def enter(self) -> None:
        """Make runs that begin from here on, e.g. in a tool, part of this run."""
        _entered.set((*self.around, ref(self)))

    def ends_at(self, messages: list[Kept], cursor: Cursor) -> None:
        """Record the end of the history, also for the runs around this one."""
        for run in (self, *(each() for each in self.around)):
            if run is not None and run.entity == self.entity and run.messages is not None:
                run.messages, run.cursor = messages, cursor


READING: ContextVar[GivenHistory | None] = ContextVar("READING", default=None)
_entered: ContextVar[tuple[ref[GivenHistory], ...]] = ContextVar("_entered", default=())
