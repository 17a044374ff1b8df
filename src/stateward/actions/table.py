"""The table of all actions, in the order of the reference."""

from __future__ import annotations

from collections import Counter

from stateward.actions.action import Action
from stateward.actions.effects import EFFECTS
from stateward.actions.kinds import KINDS
from stateward.actions.questions import QUESTIONS
from stateward.actions.schedules import SCHEDULES
from stateward.actions.tasks import TASKS
from stateward.actions.workflows import WORKFLOWS
from stateward.errors import InvalidInput

ACTIONS: tuple[Action, ...] = (*WORKFLOWS, *QUESTIONS, *TASKS, *EFFECTS, *SCHEDULES, *KINDS)

for _name, _count in Counter(row.name for row in ACTIONS).items():
    if _count > 1:
        raise InvalidInput(f"{_count} actions are called {_name!r}")
