"""The REST API of a conversation as people read it: messages with times, title, branches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.actions.page import Page, past
from stateward.errors import InvalidInput
from stateward.kinds import EFFECT, THREAD
from stateward.ops import Found, Log
from stateward.records import Branch, Late, Origin, Shaper, Summary, ThreadInfo
from stateward.repeats import find_repeats
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Whom, answer, before_number, linked, missing, page, whose
from stateward.server.rest_knowledge import ReceiptShown, receipt_shown
from stateward.server.route import RestCall, Routes
from stateward.state.about import ABOUT
from stateward.state.feeds import change_of
from stateward.state.receipts import receipt_of
from stateward.state.threads import Thread
from stateward.state.window_request import thread_info

MOST_SEARCHED = 200  # messages: a twentieth of a second for a hundred


class TranscriptQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of messages, the newest page first; `after` leads to the page of older ones."""

    user: str | None = None
    limit: Limit = 100
    after: str | None = None
    breaks: bool = False  # look for signs of lost context, among at most 200 messages


class BranchesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Some of the branches, by id."""

    user: str | None = None
    limit: Limit = 100
    after: str | None = None


class DescribeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Another title ("": none), and labels that are new or changed (null: removed)."""

    title: str | None = None
    labels: dict[str, str | None] | None = None


class ContextBreak(Struct, frozen=True):
    """A sign that the agent had lost its context: see `stateward.repeats`.

    `earlier` is the version of the message that had said it, if it is on the page.
    """

    kind: str
    evidence: str
    earlier: int | None
    score: float


class TranscriptMessage(Struct, frozen=True):
    """A message as it entered the conversation. The last one of a turn may have its receipt."""

    message: dict[str, Any]
    version: int
    cursor: str
    at: datetime
    key: str | None
    receipt: ReceiptShown | None
    breaks: list[ContextBreak] = []


class ThreadAbout(Struct, frozen=True):
    """What there is to say of a conversation beside its messages."""

    info: ThreadInfo
    vars: dict[str, Any]
    summary: Summary | None
    origin: Origin | None
    late: list[Late]
    leader: str | None  # who has its lease, or had it and did not give it back


def _thread(call: RestCall) -> Thread:
    return call.store.thread(call.path["thread"], whose(call, call.query.user))


TRANSCRIPTS = Routes()


@TRANSCRIPTS.logged("thread read", reads=True)
@TRANSCRIPTS.route(
    "GET /v1/threads/{thread}/messages", "read", Page[TranscriptMessage], TranscriptQuery
)
async def _messages(call: RestCall) -> Reply:
    """List messages with times, receipts and, on request, signs of lost context."""
    query: TranscriptQuery = call.query
    if query.breaks and query.limit > MOST_SEARCHED:
        raise InvalidInput(f"with breaks=true the limit is at most {MOST_SEARCHED}")
    handle = _thread(call).handle
    fetched = await handle.fetch(Log(0, before_number(query.after), last=query.limit, details=True))
    if not fetched.head.exists:
        raise missing("thread", call.path["thread"])
    entries = fetched.entries
    notes: dict[int, str] = {}
    if entries:
        # Receipts come with what backups read, which is read from the front.
        span = Log(entries[0].seq - 1, entries[-1].seq, first=2 * len(entries), whole=True)
        whole = await handle.fetch(span)
        notes = {entry.seq: entry.note for entry in whole.entries if entry.note is not None}
    shown = []
    for entry in entries:
        change, note = change_of(entry), notes.get(entry.seq)
        receipt = None if note is None else receipt_shown(receipt_of(note))
        shown.append(
            TranscriptMessage(
                change.message, change.version, str(change.cursor), change.at, change.key, receipt
            )
        )
    if query.breaks:
        shown = await handle.scope.world.offload(_with_breaks, shown, handle.scope.shaper)
    following = str(entries[0].seq) if len(entries) == query.limit else None
    return answer(Page(shown, following), headers=linked(call, following))


def _with_breaks(
    shown: Sequence[TranscriptMessage], shape: Shaper | None
) -> list[TranscriptMessage]:
    """Return the messages, with the signs of lost context in them."""
    breaks: dict[int, list[ContextBreak]] = {}
    for sign in find_repeats([each.message for each in shown], shape=shape):
        earlier = None if sign.earlier is None else shown[sign.earlier].version
        breaks.setdefault(sign.at, []).append(
            ContextBreak(sign.kind, sign.evidence, earlier, sign.score)
        )
    return [replace(each, breaks=breaks.get(at, [])) for at, each in enumerate(shown)]


@TRANSCRIPTS.logged("thread read", reads=True)
@TRANSCRIPTS.route("GET /v1/threads/{thread}/about", "read", ThreadAbout, Whom)
async def _about(call: RestCall) -> Reply:
    """Get a conversation's title, labels, variables, summary, origin and late turns."""
    thread = _thread(call)
    fetched, variables, summary, origin, late = await asyncio.gather(
        thread.handle.fetch(documents=(ABOUT,)),
        thread.vars.get(),
        thread.summary(),
        thread.origin(),
        thread.late(),
    )
    if not fetched.head.exists:
        raise missing("thread", thread.id)
    info = thread_info(Found(thread.handle.entity, fetched.head, fetched.documents))
    lease = fetched.head.lease
    leader = None if lease is None else lease.holder
    return answer(ThreadAbout(info, variables.value, summary, origin, late, leader))


async def _refuse_missing(call: RestCall) -> None:
    if not (await _thread(call).handle.fetch()).head.exists:
        raise missing("thread", call.path["thread"])


@TRANSCRIPTS.logged("thread describe")
@TRANSCRIPTS.route(
    "POST /v1/threads/{thread}/describe", "write", None, Whom, DescribeBody, writes=(THREAD,)
)
async def _describe(call: RestCall) -> Reply:
    """Set a conversation's title and labels."""
    body: DescribeBody = call.body
    await _refuse_missing(call)
    await _thread(call).describe(title=body.title, labels=body.labels)
    return Reply(204)


@TRANSCRIPTS.logged("thread archive")
@TRANSCRIPTS.route(
    "POST /v1/threads/{thread}/archive", "write", None, Whom, writes=(THREAD, EFFECT)
)
async def _archive(call: RestCall) -> Reply:
    """Archive a conversation: keep it, but leave it out of lists."""
    await _refuse_missing(call)
    await _thread(call).archive()
    return Reply(204)


@TRANSCRIPTS.logged("thread unarchive")
@TRANSCRIPTS.route(
    "POST /v1/threads/{thread}/unarchive", "write", None, Whom, writes=(THREAD, EFFECT)
)
async def _unarchive(call: RestCall) -> Reply:
    """Unarchive a conversation: show it in lists again."""
    await _refuse_missing(call)
    await _thread(call).unarchive()
    return Reply(204)


@TRANSCRIPTS.route("GET /v1/threads/{thread}/branches", "read", Page[Branch], BranchesQuery)
async def _branches(call: RestCall) -> Reply:
    """List the conversations that were forked from this one."""
    query: BranchesQuery = call.query
    listing = past(_thread(call).branches(), query.after, lambda branch: branch.id)
    return await page(call, query.limit, listing, lambda branch: branch.id)
