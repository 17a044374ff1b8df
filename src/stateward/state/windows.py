"""Reading a thread's window: the newest page first, older ones only while they are needed."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.codec import decode, decode_lines
from stateward.context.compaction import SUMMARY, Kept, kept
from stateward.context.tool_pairs import Message, by_model, is_known, seen_as
from stateward.context.window import (
    LOOK_BACK,
    Bounds,
    Conversation,
    Picked,
    system_messages,
    untied_window,
)
from stateward.errors import WindowTooSmall
from stateward.layers.outage.asked import ASKED, asked_in, waiting
from stateward.ops import Entry, Fetch, Fetched, Found, Head, Log, Outcome
from stateward.records import Change, Shaper
from stateward.state.feeds import change_of, reset
from stateward.state.handle import Handle
from stateward.state.recent import not_begun
from stateward.state.refusals import refuse
from stateward.state.scope import Scope
from stateward.state.summaries import current_summary
from stateward.state.window_record import Window
from stateward.state.window_request import (
    FIRST_ENTRIES,
    WindowRequest,
    beginning,
    pins,
    plain_window,
    window_of,
    with_asked,
)

logger = logging.getLogger("stateward.threads")

LOOKED_AT = 20  # messages per window whose format is checked


class Changed(Exception):
    """The conversation was deleted and created again while it was read."""


def questions(scope: Scope, request: WindowRequest, *, at_once: bool = False) -> list[Fetch]:
    """Return the first round trip of a window: its newest messages, and the thread's first ones.

    `at_once`: read `last` messages in one page, however many these are.
    """
    bounds, since, upto, page = request.bounds, request.since, request.upto, scope.capabilities.page
    if request.is_plain:
        size = bounds.last or 0
        newest = Fetch(
            request.entity, request.owner, Log(last=size if at_once or size < page else page)
        )
        return (
            [newest] if request.entity in scope.beginnings.seen else [newest, beginning(request, 0)]
        )
    size = bounds.first_page(max(page, bounds.last or 0) if at_once else page)
    if request.compaction is not None:
        size = min(page, max(size if not bounds.verbatim else 0, 2 * request.compaction.after))
    end = None if upto is None else upto.version
    log = Log(since.version, end, None, size, since.stamp, request.entries)
    documents = () if request.compaction is None else (SUMMARY,)
    asked = [Fetch(request.entity, request.owner, log, documents)]
    if pins(request) and request.entity not in scope.beginnings.seen:
        asked.append(beginning(request, 0))
    if upto is not None and upto.stamp is not None:
        there = Log(upto.version, first=1, stamp=upto.stamp)
        asked.append(Fetch(request.entity, request.owner, there))
    return asked


async def read_window(scope: Scope, request: WindowRequest) -> Window:
    """Read a window as of one moment; starts over if the thread was deleted and created again."""
    while True:
        outcomes = await scope.execute(questions(scope, request))
        try:
            return await answer(scope, request, outcomes)
        except Changed:
            continue


def answer(
    scope: Scope, request: WindowRequest, outcomes: Sequence[Outcome]
) -> Coroutine[Any, Any, Window]:
    """Make the window from the outcomes of `questions`, and read further pages as needed."""
    newest = outcomes[0]
    waits = type(newest) is Fetched and newest.head.status == ASKED
    if waits and request.asked and request.upto is None:
        return _with_asked(scope, request, outcomes)
    return _answer(scope, request, outcomes)


async def _with_asked(scope: Scope, request: WindowRequest, outcomes: Sequence[Outcome]) -> Window:
    """Add the questions that wait for their answers: this costs a second round trip."""
    newest = outcomes[0]
    assert type(newest) is Fetched
    fetched = await scope.fetch(Fetch(request.entity, request.owner, None, (ASKED,)))
    if fetched.head.commits != newest.head.commits:
        raise Changed
    asked, bounds = waiting(asked_in(fetched.documents.get(ASKED))), request.bounds
    if request.entries:
        return with_asked(await _answer(scope, request, outcomes), asked, bounds)
    left, fitting = bounds.left_by([decode(each.body) for each in asked])
    asked = asked[len(asked) - fitting :]
    nothing = replace(request, bounds=replace(left, last=0))
    try:
        window = await _answer(scope, replace(request, bounds=left), outcomes)
    except WindowTooSmall:  # the questions are the newest turns of the thread
        window = await _answer(scope, nothing, outcomes)
    older = window.messages[window.pinned :]
    if asked and older and by_model(older[0]) and not left.verbatim:
        window = await _answer(scope, nothing, outcomes)  # no step without its question
    return with_asked(window, asked, bounds)


async def _answer(scope: Scope, request: WindowRequest, outcomes: Sequence[Outcome]) -> Window:
    newest, read = outcomes[0], scope.world.monotonic()
    if type(newest) is not Fetched:
        refuse(newest, request.entity)
    head = newest.head
    empty = head.exists and not head.version
    if empty and await not_begun(scope, (Found(request.entity, head, newest.documents),)):
        newest = replace(newest, head=replace(head, exists=False))
    messages: list[Message] | None = None
    if len(outcomes) == 1 and request.is_plain and scope.shaper is None:
        head = newest.head
        if head.base == 0 and scope.beginnings.seen.get(request.entity) == (head.life, head.label):
            messages = decode_lines(newest.lines)
            texts = untied_window(messages, request.bounds, complete=newest.first <= 1)
            if texts is not None:
                return plain_window(request, head, texts.messages, read)
    if newest.reset or (request.upto is not None and request.upto.stamp is not None):
        outcomes = _same_history(newest, request, outcomes)
    pages = Pages(scope, request, newest, messages)
    if request.bounds.are_used_up:
        return window_of(request, newest.head, Picked([], 0), Kept(), 0, None, read)
    if request.bounds.verbatim and request.compaction is None:
        stored = Picked(await pages.verbatim(request.bounds.last), 0)
        return window_of(request, newest.head, stored, Kept(), 0, pages.entries_of(stored), read)
    system: list[Entry] = []
    if pins(request):
        system = await _system_entries(scope, request, newest.head, outcomes[1:])
    summary, bounds = Kept(), request.bounds
    if not system and request.compaction is None and not pages.beheaded and scope.shaper is None:
        texts = untied_window(pages.newest, bounds, complete=pages.complete)
        if texts is not None:
            entries = pages.entries_of(texts) if request.entries else None
            return window_of(request, newest.head, texts, summary, 0, entries, read)
    if request.compaction is not None:
        summary = kept(newest.documents.get(SUMMARY), newest.head)
        handle = Handle(scope, request.entity, request.owner)
        summary = await current_summary(handle, request.compaction, newest.head, summary)
        if bounds.verbatim:  # the prompt must not overflow, with or without a summary
            bounds = Bounds(last=max(2 * request.compaction.after, 1))
        await pages.begin_after(summary.upto)
    await pages.begin_after(system[-1].seq if system else 0)
    pinned = [pages.decoded(entry) for entry in system]
    _look_at_shapes(scope, request, pages.newest[-LOOKED_AT:])
    picked = await _pick(pages, bounds, pinned, summary, continued=request.since.version > 0)
    entries = pages.entries_of(picked)
    return window_of(request, newest.head, picked, summary, len(pinned), entries, read)


def _same_history(
    newest: Fetched, request: WindowRequest, outcomes: Sequence[Outcome]
) -> Sequence[Outcome]:
    """Return the other outcomes; raises `Reset` if the cursors belong to another history."""
    if newest.reset:
        raise reset(request.entity)
    *outcomes, there = outcomes
    assert isinstance(there, Fetched)
    if there.head.life != newest.head.life:
        raise Changed
    if there.reset:
        raise reset(request.entity)
    return outcomes


def _look_at_shapes(scope: Scope, request: WindowRequest, messages: list[Message]) -> None:
    """Log, once per store, messages whose turns and tool calls cannot be recognised."""
    beginnings = scope.beginnings
    if beginnings.met_unknown_shape or all(map(is_known, seen_as(messages, scope.shaper))):
        return
    beginnings.met_unknown_shape = True
    logger.warning("message_shape_unknown", extra={"thread_id": request.entity.id})


async def _pick(
    pages: Pages, bounds: Bounds, pinned: list[Message], summary: Kept, *, continued: bool
) -> Picked:
    beheaded, shaper = pages.beheaded, pages.shaper
    conversation = Conversation(bounds, continued=continued, beheaded=beheaded, shaper=shaper)
    spent = 0
    if summary.text is not None:
        spent = sum(bounds.tokens([{"role": "system", "content": summary.text}]))
    conversation.add_older(pages.newest)
    looked: int | None = None  # number of messages when the bounds were reached
    while True:
        size = conversation.size
        far = looked is not None and size >= looked + LOOK_BACK
        if pages.complete or far or not conversation.surely_more():
            picked = conversation.pick(pinned, spent, complete=pages.complete, far=far)
            if picked is not None:
                return picked
            if looked is None and bounds.turns is None:
                looked = size
        conversation.add_older(await pages.older(bounds.last))


class Pages:
    """A thread read backwards, page by page; other tasks run between two pages."""

    def __init__(
        self,
        scope: Scope,
        request: WindowRequest,
        newest: Fetched,
        messages: list[Message] | None = None,  # of the page, where they are decoded
    ) -> None:
        self._scope = scope
        self._request = request
        self._page = newest
        self._life = newest.head.life
        self._floor = request.since.version
        self._changes: dict[int, Change] = {}  # by the identity of their messages
        self.newest = self._messages() if messages is None else messages

    @property
    def shaper(self) -> Shaper | None:
        return self._scope.shaper

    @property
    def complete(self) -> bool:
        """Whether there are no older messages, or none are wanted."""
        page = self._page
        return not page.count or page.first - 1 <= max(self._floor, page.head.base)

    @property
    def beheaded(self) -> bool:
        """Whether the thread's beginning was trimmed."""
        return self._page.head.base > 0

    async def begin_after(self, floor: int) -> None:
        """Leave out messages numbered `floor` or below."""
        if floor <= self._floor:
            return
        self._floor = floor
        page = self._page
        if not page.count or page.first > floor:
            return
        last = page.head.version if self._request.limit is None else self._request.limit
        last = min(last, page.head.version)
        if last - page.first + 1 == page.count:  # nothing was ever removed in between
            self.newest = self.newest[floor - page.first + 1 :]
        else:
            await self._read(None, self._scope.capabilities.page)
            self.newest = self._messages()

    async def older(self, last: int | None) -> list[Message]:
        """Read the previous page."""
        size = self._scope.capabilities.page
        await self._read(self._page.first - 1, size if last is None else min(size, max(last, 20)))
        return self._messages()

    async def verbatim(self, last: int | None) -> list[Message]:
        """Return every message, or exactly the newest `last`."""
        pages, read = [self.newest], len(self.newest)
        while not self.complete and (last is None or read < last):
            pages.append(await self.older(None if last is None else last - read))
            read += len(pages[-1])
        messages = [message for page in reversed(pages) for message in page]
        return messages if last is None or read <= last else messages[-last:]

    def _messages(self) -> list[Message]:
        """Decode the messages of the page that was read last."""
        page = self._page
        if not self._request.entries:
            return decode_lines(page.lines) if page.count else []
        return [self.decoded(entry) for entry in page.entries]

    def decoded(self, entry: Entry) -> Message:
        """Decode a message, and remember its number, time and key."""
        change = change_of(entry)
        self._changes[id(change.message)] = change
        return change.message

    def entries_of(self, picked: Picked) -> tuple[Change, ...] | None:
        """Return the details of these messages, if requested."""
        if not self._request.entries:
            return None
        stored = picked.messages if picked.stored is None else picked.stored
        details = (self._changes[id(message)] for message in stored)
        if not picked.shortened:
            return tuple(details)
        shown = zip(details, picked.messages, strict=True)
        return tuple(replace(change, message=message) for change, message in shown)

    async def _read(self, upto: int | None, size: int) -> None:
        request = self._request
        upto = request.limit if upto is None else upto
        log = Log(self._floor, upto, last=size, details=request.entries)
        self._page = await self._scope.fetch(Fetch(request.entity, request.owner, log))
        if self._page.head.life != self._life or not self._page.head.exists:
            raise Changed


async def _system_entries(
    scope: Scope, request: WindowRequest, head: Head, outcomes: Sequence[Outcome]
) -> list[Entry]:
    """Return the system messages that the thread starts with.

    Most threads have none. This is remembered: no append changes it, and an edit changes the label.
    """
    without = scope.beginnings.seen.get(request.entity)
    if not head.exists or (not outcomes and without == (head.life, head.label)):
        return []
    leading: list[Entry] = []
    page = outcomes[0] if outcomes else await scope.fetch(beginning(request, 0))
    while True:
        assert isinstance(page, Fetched)
        if page.head.life != head.life or not page.head.exists:
            raise Changed
        entries = page.entries
        messages = [decode(entry.body) for entry in entries]
        _look_at_shapes(scope, request, messages)
        system = system_messages(seen_as(messages, scope.shaper))
        leading.extend(entries[: len(system)])
        if len(system) < FIRST_ENTRIES:
            break
        page = await scope.fetch(beginning(request, entries[-1].seq))
    if not leading and head.live:
        scope.beginnings.remember(request.entity, head)
    return leading
