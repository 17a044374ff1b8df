"""The parts of a prompt that a store returns, and the receipt that a turn stores of them.

`Window` comes from one thread, `Context` adds the user's documents and workflows, `TurnReceipt` is
stored with the turn that followed, and `Knowledge` is read back from it. No I/O.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import to_type
from stateward.errors import InvalidInput
from stateward.ops import Entity, digest_of
from stateward.records import Change, Cursor, Document, T, WorkflowInfo, moment
from stateward.state.conversation_life import Life

SHORT_NAMES = {  # of the fields of a stored receipt
    "version": "v",
    "stamp": "s",
    "commits": "c",
    "given": "n",
    "pinned": "p",
    "skipped": "k",
    "omitted": "o",
    "summarised": "u",
    "summary": "b",
    "shortened": "x",
    "tokens": "t",
    "last": "l",
    "turns": "r",
    "max_tokens": "m",
    "after": "a",
    "upto": "e",
    "documents": "d",
    "workflows": "w",
    "unread": "f",
}


class Sight(Struct, frozen=True):
    """The place and the arguments of a read: with its window, they make a receipt."""

    entity: Entity
    commits: int  # of the thread by then
    skipped: tuple[int, ...]  # as in the receipt
    bounds: tuple[int | None, int | None, int | None, int, int | None]  # last … upto, as there
    life: Life


class TurnReceipt(Struct, frozen=True, omit_defaults=True, rename=SHORT_NAMES):
    """A record of what the model was given for a turn; stored with it, read by `store.knew`.

    Numbers and stamps instead of content. The messages were the first `pinned` of the thread and
    the newest `given` of those it had at `version`, without the `skipped`, counted from the end (0
    is the newest): a tool call without its result, or a result without its call. `omitted` is how
    many others there were, `summarised` how many of them the summary covers. `documents` are the
    versions and stamps of the user's documents, `workflows` the digest of each and when it was last
    changed; both are None if only the thread was read. `unread`: the store did not answer, and the
    model was given nothing; everything else is empty then.
    """

    version: int
    stamp: str | None
    commits: int
    given: int
    pinned: int = 0
    skipped: tuple[int, ...] = ()
    omitted: int = 0
    summarised: int = 0
    summary: int | None = None  # `digest_of` its text
    shortened: int = 0
    tokens: int | None = None
    last: int | None = None
    turns: int | None = None
    max_tokens: int | None = None
    after: int = 0
    upto: int | None = None
    documents: dict[str, tuple[int, str | None]] | None = None
    workflows: dict[str, tuple[int, float]] | None = None
    unread: bool = False

    @property
    def left_out(self) -> dict[str, int]:
        """How many messages were not given, by reason: `summarised`, `unpaired`, `outside`."""
        counted = {"summarised": self.summarised, "unpaired": len(self.skipped)}
        counted["outside"] = self.omitted - sum(counted.values())
        return {why: count for why, count in counted.items() if count > 0}


class Unanswered(Struct, frozen=True):
    """A question that was stored before its answer: `thread.turn(key=…, question=…)`.

    `key` is the key of its request, which may be being answered now. `asked_at` is by the clock of
    the machine that stored it.
    """

    key: str
    message: dict[str, Any]
    asked_at: datetime


class Window(Struct, frozen=True):
    """The part of a prompt that comes from a thread. Reading trims it; nothing stored changes.

    `unanswered` are questions that were stored and have no answer yet, oldest first. They are the
    last of `messages`, except in a window with `entries`: they have no number.
    """

    messages: list[dict[str, Any]]
    version: int
    exists: bool
    omitted: int  # stored messages that are not in this window
    cursor: Cursor
    created: float = 0.0
    updated: float = 0.0
    summary: str | None = None  # of earlier messages, if requested
    summarised: int = 0  # how many of the omitted messages it covers
    pinned: int = 0  # how many of the messages are the thread's leading system messages
    tokens: int | None = None  # of the window and its summary, if tokens are counted
    pending: tuple[str, ...] = ()  # tool calls at the end that have no results yet
    shortened: int = 0  # messages whose texts were cut, if allowed
    _entries: tuple[Change, ...] | None = None
    sight: Sight | None = None  # where it was read
    unanswered: tuple[Unanswered, ...] = ()

    @property
    def answered(self) -> Window:
        """This window without the unanswered questions."""
        if not self.unanswered or self._entries is not None:
            return replace(self, unanswered=()) if self.unanswered else self
        return replace(self, messages=self.messages[: -len(self.unanswered)], unanswered=())

    @property
    def receipt(self) -> TurnReceipt:
        """The receipt of this window: what `append(…, saw=window)` stores."""
        sight, summary = self.sight, self.summary
        if sight is None:
            raise InvalidInput("a receipt is of what was loaded, not of a window of your own")
        newest = len(self.answered.messages if self.unanswered else self.messages) - self.pinned
        digest = None if summary is None else digest_of((summary,))
        place = (self.version, self.cursor.stamp, sight.commits, newest, self.pinned, sight.skipped)
        rest = (self.omitted, self.summarised, digest, self.shortened, self.tokens)
        return TurnReceipt(*place, *rest, *sight.bounds)

    @property
    def entries(self) -> tuple[Change, ...]:
        """The messages with their numbers, times and keys, from `load(…, entries=True)`."""
        if self._entries is None:
            raise InvalidInput("this window has only messages: load it with entries=True")
        return self._entries

    def as_type(self, type: type[T]) -> list[T]:
        """Return the messages as objects of your type; raises `InvalidInput` if one does not fit.

        A dataclass, a TypedDict, a msgspec struct or a Pydantic model.
        """
        return [to_type(message, type, "a message") for message in self.messages]

    @property
    def created_at(self) -> datetime | None:
        """When the thread was created; None if it does not exist."""
        return moment(self.created) if self.exists else None

    @property
    def updated_at(self) -> datetime | None:
        """When the thread last changed; None if it does not exist."""
        return moment(self.updated) if self.exists else None


class Context(Struct, frozen=True):
    """Everything an agent needs to continue: thread, user and unfinished work, read together."""

    thread: Window
    user: dict[str, Document]
    workflows: list[WorkflowInfo]
    owner: str = ""  # the user's id

    @property
    def receipt(self) -> TurnReceipt:
        """The receipt of this context: what `append(…, saw=context)` stores."""
        documents = {name: (of.version, of.stamp) for name, of in self.user.items()}
        workflows = {of.id: (of.digest, of.updated_at.timestamp()) for of in self.workflows}
        return replace(self.thread.receipt, documents=documents, workflows=workflows)


class Gone(Struct, frozen=True):
    """Something that was given then and can no longer be shown as it was.

    `name` is a message's number in the thread ("": it is not known which one), a document's name or
    a workflow's id. `why`: `edited`, `removed` or `trimmed` for messages; `changed` or `deleted`
    for documents and workflows whose version of then is no longer stored; `shortened`
    for texts that were cut to fit and are shown in full; `unknown` if the thread no longer has the
    information.
    """

    what: Literal["message", "summary", "document", "workflow"]
    name: str
    why: Literal["edited", "removed", "trimmed", "changed", "deleted", "shortened", "unknown"]


class Knowledge(Struct, frozen=True):
    """The messages and documents an agent was given for a turn, from `store.knew`.

    Everything shown is what was given, byte for byte; the rest is listed in `gone`. `numbers` are
    those of all messages that were given, as far as they are known, including those in `gone`.
    """

    thread: str
    version: int  # of the turn's last message
    at: datetime  # when the turn was stored
    receipt: TurnReceipt
    messages: list[dict[str, Any]]
    summary: str | None
    user: dict[str, Document]
    workflows: list[WorkflowInfo]
    gone: tuple[Gone, ...] = ()
    numbers: tuple[int, ...] = ()
