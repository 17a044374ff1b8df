"""Plain records about one turn of a thread, shown as text, JSON and HTML."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from stateward.records import Change, Document, Late
from stateward.state.window_record import Gone, Knowledge, TurnReceipt

Reason = Literal[
    "window",  # older than what was asked for
    "summarised",  # a summary stood for it
    "unpaired",  # a tool call without its result
    "later",  # stored by another request after this one had read
    "kept",  # on a machine that could not reach the store
    "unread",  # the store could not be read: nothing was given
    "removed",  # gone from the thread before
    "rewritten",  # other words by then
    "not_asked",  # the context was built without a user
    "other_user",  # the document's user is not the thread's
    "no_receipt",  # the given content is not known
    "given",  # the model had it
]
ADVICE: Final[dict[Reason, str]] = {
    "window": "Load more (last=, turns=, max_tokens=), or have a summary stand for what is older "
    "(summarize=).",
    "summarised": "Make the summary keep what must not be lost, or store it in the user's "
    "documents.",
    "later": "Serialise requests, thread.turn(…, alone=True), or store with expect=.",
    "kept": "Find out why that machine could not reach the store: its log has "
    "memory_write_suppressed.",
    "unread": 'Let such requests fail instead: Policy(threads="raise").',
    "not_asked": "Give the model store.context(…), or use thread.turn(…, context=True).",
    "other_user": "Create the thread for this user, store.thread(id, user=…), or claim it.",
    "no_receipt": "Keep receipts: thread.turn(…), or append(…, saw=window).",
    "given": "Check the prompt and the model.",
}
Judgement = Literal["lost", "given", "unknown", "nothing"]


class AppendSpan(Struct, frozen=True):
    """The messages of one append. `at` is when they were written, `stored` when they arrived."""

    first: int
    last: int
    at: datetime
    stored: datetime
    kept: bool = False  # on a machine, in between
    speaks: bool = False  # the assistant does, in one of them


class ReadThread(Struct, frozen=True):
    """Messages of a thread in the order in which they were written, and how they came."""

    id: str
    user: str | None
    created: float
    entries: tuple[Change, ...]
    late: tuple[Late, ...]
    appends: tuple[AppendSpan, ...]


class Sign(Struct, frozen=True):
    """A sign of lost context, by numbers of the thread.

    `turn` is the last message of the turn that it speaks against: of a complaint, the one before.
    `holder` is the message that has what was asked for; None: the user's state, or not known.
    """

    kind: str
    at: int
    turn: int
    earlier: int | None
    holder: int | None
    evidence: str
    score: float
    given: bool | None = None
    reason: Reason | None = None


class ThreadMoment(Struct, frozen=True):
    """Everything read from the store to explain one turn of a thread."""

    thread: str
    user: str | None
    entries: tuple[Change, ...]  # around the turn, in the order in which they were written
    late: tuple[Late, ...]
    turn: AppendSpan
    knew: Knowledge | None
    before: Knowledge | None  # of the turn before that has a receipt
    signs: tuple[Sign, ...]  # of all turns that were looked at
    documents: dict[str, Document]  # the user's, as they are now
    documents_then: dict[str, Document]  # as they were when the turn was stored
    asked_user: str | None = None  # the forgotten user, if not the thread's
    asked_documents: dict[str, Document] = {}  # theirs
    removed: tuple[int, ...] = ()  # messages that were removed before the thread was read
    rewritten: tuple[int, ...] = ()
    trimmed: int = 0  # messages up to here are not kept any more
    version: int = 0  # of the thread now
    removed_since: tuple[int, ...] = ()  # messages that were removed after it was read
    origin: str | None = None  # the thread that this one was forked from
    waiting: tuple[tuple[str, int], ...] = ()  # turns that machines keep now, by host


class Cause(Struct, frozen=True):
    """Reason for missing or present content. `matters`: the cause contains one of the signs."""

    reason: Reason
    sentence: str
    numbers: tuple[int, ...] = ()  # of messages
    documents: tuple[str, ...] = ()
    matters: bool = False

    @property
    def advice(self) -> str:
        """Advice on what to do about the cause; "" if none fits every agent."""
        return ADVICE.get(self.reason, "")


class MessageSight(Struct, frozen=True):
    """A message of the thread, and whether the turn was given it; None: that is not known."""

    number: int
    at: datetime
    role: str
    text: str
    given: bool | None
    reason: Reason | None = None


class KnowledgeDifference(Struct, frozen=True):
    """Difference between what a turn was given and what another moment had."""

    version: int  # of the turn compared with; the thread's, where it is now
    came: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    sentences: tuple[str, ...] = ()


class Explanation(Struct, frozen=True):
    """Explanation of why a turn of a thread knew what it knew."""

    thread: str
    user: str | None
    turn: AppendSpan
    judgement: Judgement
    answer: str  # in a sentence or two
    advice: str  # what to do about that
    causes: tuple[Cause, ...]
    signs: tuple[Sign, ...]
    messages: tuple[MessageSight, ...]
    receipt: TurnReceipt | None
    summary: str | None
    documents: dict[str, Any]  # as they were given
    workflows: tuple[str, ...]
    gone: tuple[Gone, ...]
    before: KnowledgeDifference | None
    now: KnowledgeDifference | None
    others: tuple[Sign, ...] = ()  # signs of other turns
