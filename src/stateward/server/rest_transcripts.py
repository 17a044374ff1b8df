"""The REST API of a conversation as people read it: messages with times, title, branches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.errors import InvalidInput
from stateward.kinds import THREAD
from stateward.ops import Found, Log
from stateward.records import Branch, Late, Origin, Shaper, Summary, ThreadInfo
from stateward.repeats import find_repeats
from stateward.server.reply import Reply
from stateward.server.rest import (
    Limit,
    Page,
    Whom,
    answer,
    before_number,
    linked,
    missing,
    page,
    past,
    whose,
)
from stateward.server.rest_knowledge import ReceiptShown, receipt_shown
from stateward.server.route import RestCall, RestRoute, RouteDeed
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


async def _messages(call: RestCall) -> Reply:
    query: TranscriptQuery = call.query
    if query.breaks and query.limit > MOST_SEARCHED:
        raise InvalidInput(f"with breaks=true the limit is at most {MOST_SEARCHED}")
    handle = _thread(call).handle
    seen = await handle.fetch(Log(0, before_number(query.after), last=query.limit, details=True))
    if not seen.head.exists:
        raise missing("thread", call.path["thread"])
    entries = seen.entries
    notes: dict[int, str] = {}
    if entries:
        # Receipts come with what backups read, which is read from the front.
        span = Log(entries[0].seq - 1, entries[-1].seq, first=2 * len(entries), whole=True)
        whole = await handle.fetch(span)
        notes = {entry.seq: entry.note for entry in whole.entries if entry.note is not None}
    shown = []
    for entry in entries:
        it, note = change_of(entry), notes.get(entry.seq)
        receipt = None if note is None else receipt_shown(receipt_of(note))
        shown.append(
            TranscriptMessage(it.message, it.version, str(it.cursor), it.at, it.key, receipt)
        )
    if query.breaks:
        shown = await handle.scope.world.offload(_with_breaks, shown, handle.scope.shaper)
    following = str(entries[0].seq) if len(entries) == query.limit else None
    return answer(Page(shown, following), headers=linked(call, following))


def _with_breaks(
    shown: Sequence[TranscriptMessage], shape: Shaper | None
) -> list[TranscriptMessage]:
    """The same, with what they show of lost context."""
    found: dict[int, list[ContextBreak]] = {}
    for it in find_repeats([each.message for each in shown], shape=shape):
        earlier = None if it.earlier is None else shown[it.earlier].version
        found.setdefault(it.at, []).append(ContextBreak(it.kind, it.evidence, earlier, it.score))
    return [replace(each, breaks=found.get(at, [])) for at, each in enumerate(shown)]


async def _about(call: RestCall) -> Reply:
    thread = _thread(call)
    seen, variables, summary, origin, late = await asyncio.gather(
        thread.handle.fetch(documents=(ABOUT,)),
        thread.vars.get(),
        thread.summary(),
        thread.origin(),
        thread.late(),
    )
    if not seen.head.exists:
        raise missing("thread", thread.id)
    info = thread_info(Found(thread.handle.entity, seen.head, seen.documents))
    lease = seen.head.lease
    leader = None if lease is None else lease.holder
    return answer(ThreadAbout(info, variables.value, summary, origin, late, leader))


async def _refuse_missing(call: RestCall) -> None:
    if not (await _thread(call).handle.fetch()).head.exists:
        raise missing("thread", call.path["thread"])


async def _describe(call: RestCall) -> Reply:
    body: DescribeBody = call.body
    await _refuse_missing(call)
    await _thread(call).describe(title=body.title, labels=body.labels)
    return Reply(204)


async def _archive(call: RestCall) -> Reply:
    await _refuse_missing(call)
    await _thread(call).archive()
    return Reply(204)


async def _unarchive(call: RestCall) -> Reply:
    await _refuse_missing(call)
    await _thread(call).unarchive()
    return Reply(204)


async def _branches(call: RestCall) -> Reply:
    query: BranchesQuery = call.query
    listing = past(_thread(call).branches(), query.after, lambda branch: branch.id)
    return await page(call, query.limit, listing, lambda branch: branch.id)


_T = "/v1/threads/{thread}"
TRANSCRIPTS = (
    RestRoute(
        "GET",
        f"{_T}/messages",
        "read",
        _messages,
        "List messages with times, receipts and, on request, signs of lost context",
        Page[TranscriptMessage],
        TranscriptQuery,
        deed=RouteDeed("thread read", THREAD, "thread", reads=True),
    ),
    RestRoute(
        "GET",
        f"{_T}/about",
        "read",
        _about,
        "Get a conversation's title, labels, variables, summary, origin and late turns",
        ThreadAbout,
        Whom,
        deed=RouteDeed("thread read", THREAD, "thread", reads=True),
    ),
    RestRoute(
        "POST",
        f"{_T}/describe",
        "write",
        _describe,
        "Set a conversation's title and labels",
        None,
        Whom,
        DescribeBody,
        204,
        deed=RouteDeed("thread describe", THREAD, "thread"),
    ),
    RestRoute(
        "POST",
        f"{_T}/archive",
        "write",
        _archive,
        "Archive a conversation: keep it, but leave it out of lists",
        None,
        Whom,
        status=204,
        deed=RouteDeed("thread archive", THREAD, "thread"),
    ),
    RestRoute(
        "POST",
        f"{_T}/unarchive",
        "write",
        _unarchive,
        "Unarchive a conversation: show it in lists again",
        None,
        Whom,
        status=204,
        deed=RouteDeed("thread unarchive", THREAD, "thread"),
    ),
    RestRoute(
        "GET",
        f"{_T}/branches",
        "read",
        _branches,
        "List the conversations that were forked from this one",
        Page[Branch],
        BranchesQuery,
    ),
)
