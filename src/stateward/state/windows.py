"""Reading a thread's window: the newest page first, older ones only while they are needed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from stateward.codec import decode, decode_lines
from stateward.context.compaction import SUMMARY, Kept, kept
from stateward.context.tool_pairs import Message, is_known, seen_as
from stateward.context.window import (
    LOOK_BACK,
    Bounds,
    Conversation,
    Picked,
    system_messages,
    untied_window,
)
from stateward.ops import Entry, Fetch, Fetched, Head, Log, Outcome
from stateward.records import Change, Shaper, Window
from stateward.state.feeds import change_of, reset
from stateward.state.handle import Handle
from stateward.state.refusals import refuse
from stateward.state.scope import Scope
from stateward.state.summaries import current_summary
from stateward.state.window_request import (
    FIRST_ENTRIES,
    WindowRequest,
    beginning,
    pins,
    plain_window,
    window_of,
)

logger = logging.getLogger("stateward.threads")

LOOKED_AT = 20  # messages whose form is looked at, of those that a window is made of


class Changed(Exception):
    """The conversation was deleted and created again while it was read."""


def questions(scope: Scope, wanted: WindowRequest, *, at_once: bool = False) -> list[Fetch]:
    """What to ask for first, in one round trip: the newest messages, and those at the beginning.

    `at_once`: as many messages as `last` says, however many that is.
    """
    bounds, since, upto, page = wanted.bounds, wanted.since, wanted.upto, scope.capabilities.page
    if wanted.is_plain:
        size = bounds.last or 0
        newest = Fetch(
            wanted.entity, wanted.owner, Log(last=size if at_once or size < page else page)
        )
        return (
            [newest] if wanted.entity in scope.beginnings.seen else [newest, beginning(wanted, 0)]
        )
    size = bounds.first_page(max(page, bounds.last or 0) if at_once else page)
    if wanted.compaction is not None:
        size = min(page, max(size if not bounds.verbatim else 0, 2 * wanted.compaction.after))
    end = None if upto is None else upto.version
    log = Log(since.version, end, None, size, since.stamp, wanted.entries)
    documents = () if wanted.compaction is None else (SUMMARY,)
    asked = [Fetch(wanted.entity, wanted.owner, log, documents)]
    if pins(wanted) and wanted.entity not in scope.beginnings.seen:
        asked.append(beginning(wanted, 0))
    if upto is not None and upto.stamp is not None:
        there = Log(upto.version, first=1, stamp=upto.stamp)
        asked.append(Fetch(wanted.entity, wanted.owner, there))
    return asked


async def read_window(scope: Scope, wanted: WindowRequest) -> Window:
    """The window, as of one moment; one that was deleted and created again is read again."""
    while True:
        outcomes = await scope.execute(questions(scope, wanted))
        try:
            return await answer(scope, wanted, outcomes)
        except Changed:
            continue


async def answer(scope: Scope, wanted: WindowRequest, outcomes: Sequence[Outcome]) -> Window:
    """The window that begins with what `questions` brought, and goes on from there."""
    newest = outcomes[0]
    if type(newest) is not Fetched:
        refuse(newest, wanted.entity)
    messages: list[Message] | None = None
    if len(outcomes) == 1 and wanted.is_plain and scope.shaper is None:
        head = newest.head
        if head.base == 0 and scope.beginnings.seen.get(wanted.entity) == (head.life, head.label):
            messages = decode_lines(newest.lines)
            texts = untied_window(messages, wanted.bounds, complete=newest.first <= 1)
            if texts is not None:
                return plain_window(wanted, head, texts.messages)
    if newest.reset or (wanted.upto is not None and wanted.upto.stamp is not None):
        outcomes = _same_history(newest, wanted, outcomes)
    pages = Pages(scope, wanted, newest, messages)
    if wanted.bounds.verbatim and wanted.compaction is None:
        stored = Picked(await pages.verbatim(wanted.bounds.last), 0)
        return window_of(wanted, newest.head, stored, Kept(), 0, pages.entries_of(stored))
    system: list[Entry] = []
    if pins(wanted):
        system = await _system_entries(scope, wanted, newest.head, outcomes[1:])
    summary, bounds = Kept(), wanted.bounds
    if not system and wanted.compaction is None and not pages.beheaded and scope.shaper is None:
        texts = untied_window(pages.newest, bounds, complete=pages.complete)
        if texts is not None:
            entries = pages.entries_of(texts) if wanted.entries else None
            return window_of(wanted, newest.head, texts, summary, 0, entries)
    if wanted.compaction is not None:
        found = newest.documents.get(SUMMARY)
        summary = kept(found, newest.head)
        handle = Handle(scope, wanted.entity, wanted.owner)
        summary = await current_summary(handle, wanted.compaction, newest.head, summary)
        if bounds.verbatim:  # whatever becomes of the summary, a prompt does not overflow
            bounds = Bounds(last=max(2 * wanted.compaction.after, 1))
        await pages.begin_after(summary.upto)
    await pages.begin_after(system[-1].seq if system else 0)
    pinned = [pages.decoded(entry) for entry in system]
    _look_at_shapes(scope, wanted, pages.newest[-LOOKED_AT:])
    picked = await _pick(pages, bounds, pinned, summary, continued=wanted.since.version > 0)
    entries = pages.entries_of(picked)
    return window_of(wanted, newest.head, picked, summary, len(pinned), entries)


def _same_history(
    newest: Fetched, wanted: WindowRequest, outcomes: Sequence[Outcome]
) -> Sequence[Outcome]:
    """What was asked for besides; raises if the history is not the one that the cursors mean."""
    if newest.reset:
        raise reset(wanted.entity)
    *outcomes, there = outcomes
    assert isinstance(there, Fetched)
    if there.head.life != newest.head.life:
        raise Changed
    if there.reset:
        raise reset(wanted.entity)
    return outcomes


def _look_at_shapes(scope: Scope, wanted: WindowRequest, messages: list[Message]) -> None:
    """Say once for a store that a window cannot tell turns and tool calls of such messages."""
    begun = scope.beginnings
    if begun.met_unknown_shape or all(map(is_known, seen_as(messages, scope.shaper))):
        return
    begun.met_unknown_shape = True
    logger.warning("message_shape_unknown", extra={"thread_id": wanted.entity.id})


async def _pick(
    pages: Pages, bounds: Bounds, pinned: list[Message], summary: Kept, *, continued: bool
) -> Picked:
    beheaded, shaper = pages.beheaded, pages.shaper
    conversation = Conversation(bounds, continued=continued, beheaded=beheaded, shaper=shaper)
    spent = 0
    if summary.text is not None:
        spent = sum(bounds.tokens([{"role": "system", "content": summary.text}]))
    conversation.add_older(pages.newest)
    looked: int | None = None  # how many messages there were when the bounds were reached
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
    """A thread read backwards, page by page; others run between two pages."""

    def __init__(
        self,
        scope: Scope,
        wanted: WindowRequest,
        newest: Fetched,
        messages: list[Message] | None = None,  # of the page, where they are decoded
    ) -> None:
        self._scope = scope
        self._wanted = wanted
        self._page = newest
        self._life = newest.head.life
        self._floor = wanted.since.version
        self._changes: dict[int, Change] = {}  # by the identity of their messages
        self.newest = self._messages() if messages is None else messages

    @property
    def shaper(self) -> Shaper | None:
        return self._scope.shaper

    @property
    def complete(self) -> bool:
        """Whether nothing older is wanted, or there is nothing older."""
        page = self._page
        return not page.count or page.first - 1 <= max(self._floor, page.head.base)

    @property
    def beheaded(self) -> bool:
        """Whether the thread's beginning is not stored any more."""
        return self._page.head.base > 0

    async def begin_after(self, floor: int) -> None:
        """Leave out what is numbered `floor` or below."""
        if floor <= self._floor:
            return
        self._floor = floor
        page = self._page
        if not page.count or page.first > floor:
            return
        last = page.head.version if self._wanted.limit is None else self._wanted.limit
        last = min(last, page.head.version)
        if last - page.first + 1 == page.count:  # nothing was ever removed in between
            self.newest = self.newest[floor - page.first + 1 :]
        else:
            await self._read(None, self._scope.capabilities.page)
            self.newest = self._messages()

    async def older(self, last: int | None) -> list[Message]:
        """The page before."""
        size = self._scope.capabilities.page
        await self._read(self._page.first - 1, size if last is None else min(size, max(last, 20)))
        return self._messages()

    async def verbatim(self, last: int | None) -> list[Message]:
        """Every message, or exactly the newest so many."""
        pages, read = [self.newest], len(self.newest)
        while not self.complete and (last is None or read < last):
            pages.append(await self.older(None if last is None else last - read))
            read += len(pages[-1])
        messages = [message for page in reversed(pages) for message in page]
        return messages if last is None or read <= last else messages[-last:]

    def _messages(self) -> list[Message]:
        """Those of the page that was read last."""
        page = self._page
        if not self._wanted.entries:
            return decode_lines(page.lines) if page.count else []
        return [self.decoded(entry) for entry in page.entries]

    def decoded(self, entry: Entry) -> Message:
        """A message whose details are known from here on."""
        change = change_of(entry)
        self._changes[id(change.message)] = change
        return change.message

    def entries_of(self, picked: Picked) -> tuple[Change, ...] | None:
        """The details of these messages, where they were asked for."""
        if not self._wanted.entries:
            return None
        stored = picked.messages if picked.stored is None else picked.stored
        found = (self._changes[id(message)] for message in stored)
        if not picked.shortened:
            return tuple(found)
        shown = zip(found, picked.messages, strict=True)
        return tuple(replace(change, message=message) for change, message in shown)

    async def _read(self, upto: int | None, size: int) -> None:
        wanted = self._wanted
        upto = wanted.limit if upto is None else upto
        log = Log(self._floor, upto, last=size, details=wanted.entries)
        self._page = await self._scope.fetch(Fetch(wanted.entity, wanted.owner, log))
        if self._page.head.life != self._life or not self._page.head.exists:
            raise Changed


async def _system_entries(
    scope: Scope, wanted: WindowRequest, head: Head, outcomes: Sequence[Outcome]
) -> list[Entry]:
    """The system messages that the thread begins with.

    That a thread has none is remembered, because most have none, and no append changes it;
    an edit does, and changes the label.
    """
    seen = scope.beginnings.seen.get(wanted.entity)
    if not head.exists or (not outcomes and seen == (head.life, head.label)):
        return []
    found: list[Entry] = []
    page = outcomes[0] if outcomes else await scope.fetch(beginning(wanted, 0))
    while True:
        assert isinstance(page, Fetched)
        if page.head.life != head.life or not page.head.exists:
            raise Changed
        entries = page.entries
        messages = [decode(entry.body) for entry in entries]
        _look_at_shapes(scope, wanted, messages)
        system = system_messages(seen_as(messages, scope.shaper))
        found.extend(entries[: len(system)])
        if len(system) < FIRST_ENTRIES:
            break
        page = await scope.fetch(beginning(wanted, entries[-1].seq))
    if not found and head.live:
        scope.beginnings.remember(wanted.entity, head)
    return found
