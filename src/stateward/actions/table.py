"""The table of all actions, in the order of the reference."""

from __future__ import annotations

from collections import Counter

from stateward.actions.action import Action
from stateward.actions.context import CONTEXT
from stateward.actions.documents import DOCUMENTS, SHARED_DOCUMENTS
from stateward.actions.effects import EFFECTS
from stateward.actions.journals import JOURNALS
from stateward.actions.kinds import KINDS
from stateward.actions.knowledge import KNOWLEDGE
from stateward.actions.live import LIVE
from stateward.actions.locks import LOCKS
from stateward.actions.operations import OPERATIONS_LOG
from stateward.actions.questions import QUESTIONS
from stateward.actions.schedules import SCHEDULES
from stateward.actions.tasks import TASKS
from stateward.actions.threads import THREADS
from stateward.actions.transcripts import TRANSCRIPTS
from stateward.actions.users import USERS
from stateward.actions.workflows import WORKFLOWS
from stateward.errors import InvalidInput

ACTIONS: tuple[Action, ...] = (
    *(*THREADS, *TRANSCRIPTS, *LIVE, *KNOWLEDGE, *DOCUMENTS, *SHARED_DOCUMENTS),
    *(*WORKFLOWS, *QUESTIONS, *TASKS, *EFFECTS, *SCHEDULES, *LOCKS, *KINDS),
    *(*CONTEXT, *JOURNALS, *USERS, *OPERATIONS_LOG),
)

for _name, _count in Counter(row.name for row in ACTIONS).items():
    if _count > 1:
        raise InvalidInput(f"{_count} actions are called {_name!r}")
