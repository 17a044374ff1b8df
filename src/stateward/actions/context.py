"""Actions that read what belongs together: a context, and the feed of changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Literal, cast

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, Rest
from stateward.actions.arguments import ID, Arguments, Id, Limit, Words
from stateward.actions.documents import NamedDocument, named_document
from stateward.actions.transcripts import Count, LastEvent, ThreadWindow, begins_after, window_of
from stateward.kinds import THREAD
from stateward.records import EntityChange, WorkflowInfo
from stateward.state.change_feed import chosen_kinds, cursors_of
from stateward.wire import EVENTS

CONTEXT = Actions("context", kind=THREAD, for_one_user=True)


class ShowContext(Arguments, frozen=True):
    """Whose context, in which conversation, and how much of that: the last 20 messages."""

    user: Annotated[str, ID]
    thread: Id
    last: Limit | None = None
    turns: Limit | None = None
    max_tokens: Count | None = None
    oversized: Literal["raise", "shorten"] = "raise"


class ContextShown(Struct, frozen=True):
    """All that an agent needs to continue: conversation, user and unfinished work."""

    thread: ThreadWindow
    exists: bool
    user: list[NamedDocument]
    workflows: list[WorkflowInfo]


@CONTEXT.read("show", ShowContext, ContextShown, about="thread", rest=Rest("GET /v1/context"))
async def _show(call: ActionCall) -> ContextShown:
    """Get a window, the user's documents and unfinished work in one read."""
    asked: ShowContext = call.arguments
    user = call.whose
    assert isinstance(user, str)
    context = await call.store.context(
        user=user,
        thread=asked.thread,
        last=asked.last,
        turns=asked.turns,
        max_tokens=asked.max_tokens,
        oversized=asked.oversized,
    )
    documents = [named_document(name, of) for name, of in context.user.items()]
    window = window_of(asked.thread, context.thread)
    return ContextShown(window, context.thread.exists, documents, context.workflows)


class Feed(Arguments, frozen=True):
    """Which kinds, separated by commas, and where to begin."""

    kinds: Words | None = None
    after: Words | None = None
    follow: bool = True
    last_event: LastEvent = None


@CONTEXT.read(
    "changes",
    Feed,
    EntityChange,
    right="changes.read",
    about="",
    unlogged="it says that something changed, and not what",
    rest=Rest("GET /v1/changes", gives=EVENTS),
)
async def _changes(call: ActionCall) -> AsyncGenerator[EntityChange, None]:
    """Stream what has changed, and changes as they happen."""
    asked: Feed = call.arguments
    kinds = None if asked.kinds is None else asked.kinds.split(",")
    after = begins_after(asked)
    chosen_kinds(kinds), cursors_of(after)  # nonsense is refused before the stream begins
    feed = call.store.changes(kinds, after=after, wait=asked.follow)
    return cast("AsyncGenerator[EntityChange, None]", feed)
