"""Actions on conversations: which there are, their titles, branches and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, Cli, Mcp, Rest
from stateward.actions.arguments import ID, After, Arguments, Id, Limit, Many, User, Words
from stateward.actions.page import past
from stateward.bounds import CURSOR_BYTES, Text
from stateward.errors import InvalidInput
from stateward.kinds import EFFECT, FORK, STREAM, THREAD
from stateward.ops import Found
from stateward.records import Branch, ThreadInfo
from stateward.state.about import ABOUT
from stateward.state.threads import Thread
from stateward.state.window_request import thread_info

MOST_LABELS = 1000


class PositionBound(NamedTuple):
    """A version, or a cursor of a bounded length."""

    text: Text

    def check(self, value: str | int, field: str) -> None:
        if isinstance(value, str):
            self.text.check(value, field)


Position = Annotated[str | int | None, PositionBound(Text(0, CURSOR_BYTES))]
ThreadId = Annotated[Id, "The id of the conversation (thread), e.g. s-abc123."]
Labels = Annotated[dict[str, str | None], Many(MOST_LABELS)]


def thread_of(call: ActionCall) -> Thread:
    """Return the handle of the conversation that a request is about."""
    return call.store.thread(call.arguments.thread, call.whose)


async def find_thread(call: ActionCall) -> ThreadInfo | None:
    """Return what a listing says of the conversation; None: there is none."""
    handle = thread_of(call).handle
    fetched = await handle.fetch(documents=(ABOUT,))
    if not fetched.head.exists:
        return None
    return thread_info(Found(handle.entity, fetched.head, fetched.documents))


THREADS = Actions(THREAD, find_thread, before=(), role="agent", for_one_user=True)


class OneThread(Arguments, frozen=True):
    """Which conversation."""

    thread: ThreadId
    user: User = None


class ListThreads(Arguments, frozen=True):
    """Which conversations, those first that were touched last."""

    user: User = None
    prefix: Annotated[str, Text(0, ID.most), "Only those whose id begins with this."] = ""
    label: Annotated[Words | None, "Only those with this label, as NAME=VALUE."] = None
    archived: Annotated[bool, "Archived ones instead of the others."] = False
    limit: Limit = 100
    after: After = None


@THREADS.list(
    ListThreads,
    ThreadInfo,
    lambda info: info.cursor,
    rest=Rest("GET /v1/threads"),
    mcp=Mcp(
        "list_conversations",
        "List conversations, the last active first, with their ids, owners, titles and numbers of "
        "messages.",
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[ThreadInfo]:
    """List conversations, newest first."""
    asked: ListThreads = call.arguments
    name, equals, value = (asked.label or "").partition("=")
    if asked.label is not None and not equals:
        raise InvalidInput("label is NAME=VALUE")
    return call.store.threads(
        call.whose,
        prefix=asked.prefix,
        labels={name: value} if equals else None,
        archived=asked.archived,
        order="recent",
        before=asked.after,
        limit=asked.limit,
    )


@THREADS.change(
    "delete",
    OneThread,
    None,
    before=("messages",),
    makes_room=True,
    rest=Rest("DELETE /v1/threads/{thread}", writes=(THREAD, EFFECT, STREAM)),
    cli=Cli(
        """\
Removes it with its variables, its summary and everything known about it; a write in flight does not
bring it back. This cannot be undone: export it first. To remove everything of a user, use
stateward user erase.

examples:
  stateward thread delete sqlite:///agents.db s-abc123 --dry-run
  stateward thread delete sqlite:///agents.db s-abc123 --yes --json"""
    ),
)
async def _delete(call: ActionCall) -> None:
    """Remove a conversation."""
    await thread_of(call).delete()


class ForkThread(OneThread, frozen=True, kw_only=True):
    """The id of the new conversation, and at which version or cursor it leaves the old one."""

    to: Annotated[Id, "The id of the new conversation."]
    at: Position = None


class ForkAnswer(Struct, frozen=True):
    """The new conversation."""

    id: str
    user: str | None


@THREADS.change(
    "fork",
    ForkThread,
    ForkAnswer,
    logs=("to", "at"),
    rest=Rest("POST /v1/threads/{thread}/fork", "ForkBody", 201, (THREAD, FORK)),
)
async def _fork(call: ActionCall) -> ForkAnswer:
    """Fork a conversation: start another one with its messages."""
    new = await thread_of(call).fork(to=call.arguments.to, at=call.arguments.at)
    return ForkAnswer(new.id, new.user)


class DescribeThread(OneThread, frozen=True, kw_only=True):
    """Another title ("": none), and labels that are new or changed (null: removed)."""

    title: Words | None = None
    labels: Labels | None = None


@THREADS.change(
    "describe",
    DescribeThread,
    None,
    rest=Rest("POST /v1/threads/{thread}/describe", "DescribeBody", writes=(THREAD,)),
)
async def _describe(call: ActionCall) -> None:
    """Set a conversation's title and labels."""
    await thread_of(call).describe(title=call.arguments.title, labels=call.arguments.labels)


@THREADS.change(
    "archive",
    OneThread,
    None,
    rest=Rest("POST /v1/threads/{thread}/archive", writes=(THREAD, EFFECT)),
)
async def _archive(call: ActionCall) -> None:
    """Archive a conversation: keep it, but leave it out of lists."""
    await thread_of(call).archive()


@THREADS.change(
    "unarchive",
    OneThread,
    None,
    rest=Rest("POST /v1/threads/{thread}/unarchive", writes=(THREAD, EFFECT)),
)
async def _unarchive(call: ActionCall) -> None:
    """Unarchive a conversation: show it in lists again."""
    await thread_of(call).unarchive()


@THREADS.change(
    "pin",
    OneThread,
    None,
    rest=Rest("POST /v1/threads/{thread}/pin", writes=(THREAD, EFFECT)),
    cli=Cli(
        "examples:\n  stateward thread pin sqlite:///agents.db s-abc123 --yes",
        "Pin the thread {thread!r}",
        "pinned",
    ),
    mcp=Mcp("pin_conversation", "Keep a conversation for ever, whatever its retention."),
)
async def _pin(call: ActionCall) -> None:
    """Pin a conversation: keep it, whatever its retention."""
    await thread_of(call).pin()


@THREADS.change(
    "unpin",
    OneThread,
    None,
    rest=Rest("POST /v1/threads/{thread}/unpin", writes=(THREAD, EFFECT)),
    cli=Cli(
        "examples:\n  stateward thread unpin sqlite:///agents.db s-abc123 --yes",
        "Unpin the thread {thread!r}",
        "unpinned",
    ),
    mcp=Mcp("unpin_conversation", "Let the retention of a conversation count again."),
)
async def _unpin(call: ActionCall) -> None:
    """Unpin a conversation: its retention counts again, from now."""
    await thread_of(call).unpin()


class BranchesOfThread(OneThread, frozen=True, kw_only=True):
    """Some of the branches, by id."""

    limit: Limit = 100
    after: After = None


@THREADS.list(
    BranchesOfThread,
    Branch,
    lambda branch: branch.id,
    "branches",
    rest=Rest("GET /v1/threads/{thread}/branches"),
)
async def _branches(call: ActionCall) -> AsyncIterator[Branch]:
    """List the conversations that were forked from this one."""
    return past(thread_of(call).branches(), call.arguments.after, lambda branch: branch.id)
