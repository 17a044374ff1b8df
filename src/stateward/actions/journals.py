"""Actions on journals."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stateward.actions.action import ActionCall, Actions, Rest
from stateward.actions.arguments import After, Arguments, Id, User
from stateward.actions.transcripts import LastEvent, MessageEvent, changes_of
from stateward.kinds import JOURNAL
from stateward.state.journals import Journal
from stateward.wire import EVENTS


def _journal(call: ActionCall) -> Journal:
    return call.store.journal(call.arguments.journal, call.whose)


JOURNALS = Actions(JOURNAL, role="agent")


class OneJournal(Arguments, frozen=True):
    """Which journal."""

    journal: Id
    user: User = None


class ChangesOfJournal(OneJournal, frozen=True, kw_only=True):
    """Where to begin; `follow=false` ends when all that there is was told."""

    after: After = None
    follow: bool = True
    last_event: LastEvent = None


@JOURNALS.read(
    "changes",
    ChangesOfJournal,
    MessageEvent,
    for_one_user=True,
    rest=Rest("GET /v1/journals/{journal}/changes", gives=EVENTS),
)
async def _changes(call: ActionCall) -> AsyncGenerator[MessageEvent, None]:
    """Stream every event after a cursor, and new ones as they arrive."""
    return await changes_of(_journal(call), call.arguments)


@JOURNALS.change(
    "delete", OneJournal, None, makes_room=True, rest=Rest("DELETE /v1/journals/{journal}")
)
async def _delete(call: ActionCall) -> None:
    """Remove a journal."""
    await _journal(call).delete()
