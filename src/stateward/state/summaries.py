"""Making a thread's summary: once across replicas, and never from a history that has changed."""

from __future__ import annotations

import logging

import msgspec

from stateward.codec import decode, encode_value
from stateward.context.compaction import SUMMARY, Compaction, Kept, as_summary, cut_at, gaps, kept
from stateward.context.tool_pairs import Message, seen_as
from stateward.context.window import LOOK_BACK, system_messages
from stateward.errors import InvalidInput, LeaseHeld, StatewardError
from stateward.kinds import SUMMARY as SUMMARY_LEASE
from stateward.ops import Applied, Conflict, DocumentAt, Duplicate, Head, Log, LogAt, Put, Value
from stateward.records import Summary
from stateward.state.calls import awaited
from stateward.state.handle import Handle
from stateward.state.locks import Lock
from stateward.state.refusals import refuse

logger = logging.getLogger("stateward.summaries")

RETAIN = 60.0  # seconds after which the lease that coordinates the making is forgotten


async def current_summary(
    handle: Handle, compaction: Compaction, head: Head, summary: Kept
) -> Kept:
    """Return the summary to use: a new one if it is due and can be made, else the current one.

    Failures are counted and logged; the turn continues with the current summary.
    """
    if uncovered(head, summary) <= compaction.after:
        return summary
    maker = SummaryMaker(handle, compaction)
    if compaction.background:
        handle.scope.background.start(maker.attempt, handle.entity)
        return summary
    return await maker.attempt() or summary


def uncovered(head: Head, summary: Kept) -> int:
    """Return the number of messages that the summary does not cover."""
    return head.live - summary.messages - summary.system


class SummaryMaker:
    """Makes the next summary of one thread."""

    def __init__(self, handle: Handle, compaction: Compaction) -> None:
        self._handle = handle
        self._scope = handle.scope
        self._entity = handle.entity
        self._compaction = compaction

    async def attempt(self) -> Kept | None:
        """Return the next summary, or None if it cannot be made now. Raises only cancellation."""
        try:
            return await self.step(self._compaction.after)
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: Exception) -> None:
        """Count and log a failure; the user stays out of the log."""
        self._scope.counters.summaries_failed += 1
        logger.warning(
            "summary_failed", extra={"thread_id": self._entity.id, "error": type(error).__name__}
        )

    async def step(self, more_than: int) -> Kept | None:
        """Summarise once, if more than this many messages are not covered.

        A lease keeps two replicas from paying for the same summary. The claim, a version of the
        document written before the messages are read, keeps a summary from being stored twice, or
        over an edit or a deletion made meanwhile.
        """
        if not await self._can_be_divided(more_than):
            return None  # one long turn; no write was needed to find out
        making = self._scope.entity(SUMMARY_LEASE, self._entity.id)  # lives where the thread lives
        lease = Handle(self._scope, making, retain=RETAIN)
        lock = Lock(lease, ttl=self._compaction.ttl, wait=0)
        try:
            async with lock:
                return await self._made(more_than)
        except LeaseHeld:
            self._scope.counters.summaries_elsewhere += 1
            return None

    async def _can_be_divided(self, more_than: int) -> bool:
        now = await self._handle.fetch(documents=(SUMMARY,))
        summary = kept(now.documents.get(SUMMARY), now.head)
        if uncovered(now.head, summary) <= more_than:
            return True  # another replica was faster: `_made` finds its summary
        return await self._read(summary) is not None

    async def _made(self, more_than: int) -> Kept | None:
        now = await self._handle.fetch(documents=(SUMMARY,))
        before = now.documents.get(SUMMARY)
        summary = kept(before, now.head)
        if not now.head.exists or uncovered(now.head, summary) <= more_than:
            return summary if summary.text is not None else None
        op = await self._claim(now.head, before, summary)
        if op is None:
            return None
        read = await self._read(summary)
        if read is None:
            return None  # one long turn: it is not divided
        head, messages, upto, system = read
        text = await awaited(self._compaction.summarize(summary.text, messages))
        if type(text) is not str or not text.strip():
            raise InvalidInput(f"summarize returned {type(text).__name__}, not a text with words")
        encode_value(text, "the summary", self._scope.limits)  # checked like any other text
        covers = summary.messages + len(messages)
        made = Kept(text, upto, covers, system, gaps(head))
        return made if await self._put(made, before, op) else None

    async def _claim(self, head: Head, before: Value | None, summary: Kept) -> str | None:
        """Write a claim if the thread has not changed; returns its stamp, or None."""
        version, stamp = (0, None) if before is None else (before.version, before.stamp)
        claim = msgspec.structs.replace(summary, making=head.version)
        op = self._scope.world.new_op()
        outcome = await self._handle.commit(
            (Put(SUMMARY, claim.json()),),
            (LogAt(head.version, head.stamp), DocumentAt(SUMMARY, version, stamp)),
            op=op,
        )
        if isinstance(outcome, Applied | Duplicate):
            return op
        if isinstance(outcome, Conflict):  # another write came first: the next load tries again
            self._scope.counters.summaries_discarded += 1
            return None
        refuse(outcome, self._entity)

    async def _read(self, summary: Kept) -> tuple[Head, list[Message], int, int] | None:
        """Read the messages to summarise.

        Returns the thread's head, the messages, the version of the last one, and the number of
        system messages before them; None if no turn ends where they would have to be divided.
        """
        numbers: list[int] = []
        messages: list[Message] = []
        most, keep = self._compaction.most, self._compaction.keep
        while True:
            after = numbers[-1] if numbers else summary.upto
            log = Log(after, first=self._scope.capabilities.page, details=True)
            page = await self._handle.fetch(log)
            for entry in page.entries:
                numbers.append(entry.seq)
                messages.append(decode(entry.body))
            left = page.head.version - numbers[-1] if numbers else 0
            shaper = self._scope.shaper
            leading = seen_as(messages, shaper) if summary.upto == 0 else ()
            passed = len(system_messages(leading))
            allowed = len(messages) - passed - max(0, keep - left)
            cut = cut_at(messages[passed:], most, allowed, shaper)
            if cut is not None and (len(messages) > most or not left):
                upto = numbers[passed + cut - 1]
                system = summary.system + passed
                return page.head, messages[passed : passed + cut], upto, system
            if not page.entries or not left or len(messages) >= most + LOOK_BACK:
                return None

    async def _put(self, made: Kept, before: Value | None, claim: str) -> bool:
        version = 1 if before is None else before.version + 1
        claimed = (DocumentAt(SUMMARY, version, claim),)
        outcome = await self._handle.commit((Put(SUMMARY, made.json()),), claimed)
        if isinstance(outcome, Applied | Duplicate):
            self._scope.counters.summaries_made += 1
            return True
        if isinstance(outcome, Conflict):  # edited or deleted meanwhile
            self._scope.counters.summaries_discarded += 1
            return False
        refuse(outcome, self._entity)


async def compact(handle: Handle, compaction: Compaction) -> Summary | None:
    """Make all summaries that are due now; failures are raised."""
    maker = SummaryMaker(handle, compaction)
    reached = -1
    while True:
        try:
            made = await maker.step(compaction.keep)
        except StatewardError:
            raise
        except Exception as error:
            maker.failed(error)
            raise
        if made is None or made.upto <= reached:
            break
        reached = made.upto
    return await stored_summary(handle)


async def stored_summary(handle: Handle) -> Summary | None:
    """Return the stored summary."""
    fetched = await handle.fetch(documents=(SUMMARY,))
    value = fetched.documents.get(SUMMARY)
    return as_summary(kept(value, fetched.head), value)
