"""What the public methods return: plain frozen records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct, json
from msgspec.structs import replace

from stateward.codec import MOST, shown, to_type
from stateward.errors import InvalidInput
from stateward.ops import Entity, digest_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default; type checkers know it by heart

    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")

RENAMED = {  # in a receipt as it is stored
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

Redact = Callable[[dict[str, Any]], dict[str, Any]]


class ThreadListener:
    """Notified of changes to conversations, after they were stored: `open(…, listener=…)`.

    Override the methods you need. They run within the call that made the change, so they must be
    fast and are not async; what they raise is logged. Changes by other processes are not reported.
    `shape` is the store's, unless the listener has its own.
    """

    shape: Shaper | None = None

    def appended(
        self,
        namespace: str,
        thread: str,
        user: str | None,
        messages: Sequence[Mapping[str, Any]],
        version: int,
    ) -> object:
        """Messages were appended, and this is the thread's new version. Not called for a duplicate.

        A returned list of repeats is counted as context breaks.
        """

    def edited(self, namespace: str, thread: str) -> object:
        """Messages were rewritten or removed: anything remembered about them is out of date."""

    def deleted(self, namespace: str, thread: str) -> object:
        """The conversation was deleted, alone or with everything of its user."""

    def erased(self, namespace: str, user: str) -> object:
        """Everything of the user was erased: keep nothing of it."""


class MessageShape(Struct, frozen=True):
    """Describes a message in your own format to a window: `open(…, shape=…)`.

    `calls` are the ids of the tool calls it makes, `results` those of the calls it answers, `text`
    is its text, exactly as in the message: what may be cut if it is too long.
    """

    role: Literal["user", "assistant", "system", "tool"]
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    text: str = ""


Shaper = Callable[[dict[str, Any]], MessageShape | None]


class Cursor(Struct, frozen=True):
    """A position in one particular history: a version and the stamp of the write that made it.

    Store it as text with `str(cursor)`; wherever a cursor is accepted, so is that text. A bare
    version works too, but cannot distinguish two histories of the same length.
    """

    version: int
    stamp: str | None = None

    def __str__(self) -> str:
        return str(self.version) if self.stamp is None else f"{self.version}.{self.stamp}"

    @classmethod
    def of(cls, place: int | str | Cursor) -> Cursor:
        """Return the cursor for a version, a cursor's text, or a cursor."""
        if isinstance(place, Cursor):
            return place
        if isinstance(place, str):
            number, _, stamp = place.partition(".")
            if number.isascii() and number.isdigit() and len(number) < 16:
                return cls(int(number), stamp or None)
        elif type(place) is int and 0 <= place <= MOST:
            return cls(place)
        raise InvalidInput(
            f"{shown(place)} is not a position in a history; pass a version (0, 1, 2 …) or the "
            "cursor of "
            "a window or change"
        )


class Sight(Struct, frozen=True):
    """Where a window was read, and what was asked for: with the window it makes a receipt."""

    entity: Entity
    commits: int  # how many there had been to the thread
    skipped: tuple[int, ...]  # as in the receipt
    bounds: tuple[int | None, int | None, int | None, int, int | None]  # last … upto, as there


class TurnReceipt(Struct, frozen=True, omit_defaults=True, rename=RENAMED):
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


class Window(Struct, frozen=True):
    """What a thread contributes to a prompt. Trimmed when read; everything stays stored."""

    messages: list[dict[str, Any]]
    version: int
    exists: bool
    omitted: int  # stored messages that are not in this window
    cursor: Cursor
    created: float = 0.0
    updated: float = 0.0
    summary: str | None = None  # of what came before these messages, where one was asked for
    summarised: int = 0  # how many of the omitted messages it covers
    pinned: int = 0  # so many of the messages are the system messages the thread begins with
    tokens: int | None = None  # what the window costs, summary included, where tokens are counted
    pending: tuple[str, ...] = ()  # calls at the very end whose results are still to come
    shortened: int = 0  # messages whose texts were cut, where that was allowed
    _entries: tuple[Change, ...] | None = None
    sight: Sight | None = None  # where it was read

    @property
    def receipt(self) -> TurnReceipt:
        """The receipt of this window: what `append(…, saw=window)` stores."""
        sight, summary = self.sight, self.summary
        if sight is None:
            raise InvalidInput("a receipt is of what was loaded, not of a window of your own")
        given = len(self.messages) - self.pinned
        digest = None if summary is None else digest_of((summary,))
        place = (self.version, self.cursor.stamp, sight.commits, given, self.pinned, sight.skipped)
        told = (self.omitted, self.summarised, digest, self.shortened, self.tokens)
        return TurnReceipt(*place, *told, *sight.bounds)

    @property
    def entries(self) -> tuple[Change, ...]:
        """The messages with their numbers, times and keys, from `load(…, entries=True)`."""
        if self._entries is None:
            raise InvalidInput("this window has only messages: load it with entries=True")
        return self._entries

    def as_type(self, type: type[T]) -> list[T]:
        """Return the messages as objects of your own type; what does not fit raises `InvalidInput`.

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


class Summary(Struct, frozen=True):
    """The summary of a conversation's older turns: of all messages up to version `upto`."""

    text: str
    upto: int
    messages: int  # how many messages it covers
    made_at: datetime


class Appended(Struct, frozen=True):
    """The outcome of an append.

    `stored`: it is in the store. `duplicate`: an append with the same key already was. `spilled`:
    the store failed; the messages are on this machine, and are stored when the store answers again.
    `dropped`: the store failed and there was no room to spill: they are lost. For the last two the
    version is 0, because it is not known yet. With `repeat="first"`, `messages` are those stored
    under the key, possibly by another delivery.
    """

    status: Literal["stored", "duplicate", "spilled", "dropped"]
    version: int
    cursor: Cursor
    messages: tuple[dict[str, Any], ...] = ()


class Change(Struct, frozen=True):
    """One message as it entered a thread. Changes of one append share the cursor's stamp."""

    message: dict[str, Any]
    version: int
    cursor: Cursor
    at: datetime
    key: str | None = None


class EntityChange(Struct, frozen=True):
    """An entity that has changed: a conversation, a user's documents, a workflow … See `changes`.

    `commits` counts everything ever written to it, `version` the entries of its log.
    """

    kind: str
    id: str
    user: str | None
    version: int
    commits: int
    updated_at: datetime
    cursor: str  # for `after=`, to continue after it


class Origin(Struct, frozen=True):
    """Where a thread was forked from: which thread, and which version of it."""

    thread: str
    version: int


class Branch(Struct, frozen=True):
    """A thread that was forked from another one, at that `version` of it."""

    id: str
    user: str | None
    version: int
    messages: int
    created_at: datetime
    updated_at: datetime


class Late(Struct, frozen=True):
    """A turn that reached the store after newer ones: the messages `first` to `last`.

    `written_at` is when it was written, by the store's clock.
    """

    first: int
    last: int
    written_at: datetime


class ThreadInfo(Struct, frozen=True):
    """A thread in a listing."""

    id: str
    user: str | None
    version: int
    messages: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    title: str | None = None
    labels: dict[str, str] = {}
    archived: bool = False
    cursor: str = ""  # for `before=`, to continue after it: where the listing is by time


class Document(Struct, Generic[T], frozen=True):
    """A JSON object, or an object of a type that was read from it, with its version.

    A missing document is `{}` with version 0. A past one whose number is no longer known has
    version -1.
    """

    value: T
    version: int = 0
    stamp: str | None = None
    updated: float = 0.0

    @property
    def exists(self) -> bool:
        return self.version != 0

    @property
    def updated_at(self) -> datetime | None:
        return moment(self.updated) if self.version else None


class DocumentVersion(Struct, Generic[T], frozen=True):
    """A past version of a document, and from when on it was current. See `history`.

    `value` is None where it was removed. `version` is then 0, and None where it is not known.
    """

    value: T | None
    version: int | None
    stamp: str | None = None
    updated: float = 0.0

    @property
    def deleted(self) -> bool:
        return self.value is None

    @property
    def updated_at(self) -> datetime:
        return moment(self.updated)


class Awaited(Struct, frozen=True):
    """Something a workflow waits for: a signal, the end of a sleep, a child or a driver.

    `name` is that of the signal or sleep, or the child's id; a driver has none.
    """

    what: Literal["signal", "sleep", "child", "driver"]
    name: str
    since: datetime
    until: datetime | None = None


class WorkflowInfo(Struct, frozen=True):
    """The state of a workflow.

    `status` is active, completed, failed or cancelled; `step` is the state of its declared machine.
    """

    id: str
    kind: str
    user: str | None
    status: str
    step: str | None
    state: dict[str, Any]
    updated_at: datetime
    error: str | None = None  # why it failed, or was cancelled
    cursor: str = ""  # for `before=`, to continue after it: where the listing is by time
    waits: tuple[Awaited, ...] = ()  # what it waits for; nothing while it is driven
    driver: str | None = None  # who has its lease, or had it and did not give it back
    last_error: str | None = None  # how a step last failed, be it that the code continued after it
    failed_step: str | None = None  # which step that was
    attempt: int = 0  # and how often it had been tried then, since the driver began with it

    @property
    def digest(self) -> int:
        """64 bits that change when any field changes, regardless of when it was last updated."""
        told = (self.id, self.kind, self.user, self.status, self.step, self.state, self.error)
        return digest_of((json.encode(told, order="sorted").decode(),))


class OpenQuestion(Struct, frozen=True):
    """A question that a workflow asks people and waits for, such as an approval.

    `ask` and `for_` are as passed to `run.wait`.
    """

    id: str
    workflow: str
    kind: str
    user: str | None
    signal: str
    ask: Any
    for_: str | None
    asked_at: datetime
    until: datetime | None = None


class TaskInfo(Struct, frozen=True):
    """The state of a task."""

    id: str
    user: str | None
    status: str  # pending, running, completed, failed or cancelled
    name: str
    failures: int
    error: str | None
    updated_at: datetime
    due_at: datetime | None
    attempt: int  # how often it was begun: failures, deaths, and the run in progress
    holder: str | None  # the process that runs it
    since: datetime  # when it got this status
    cursor: str = ""  # for `before=`, to continue after it: where the listing is by time


class ScheduleInfo(Struct, frozen=True, kw_only=True):
    """The state of a schedule."""

    id: str
    user: str | None
    status: str  # active or paused
    cron: str
    tz: str
    task: str | None  # the function's name
    workflow: str | None  # or the kind of workflow
    next_at: datetime | None  # None: paused
    last_at: datetime | None  # the newest tick that ran, or is about to
    last_id: str | None  # its task or workflow
    last_status: str | None  # of that; None: not recorded yet, or forgotten
    last_error: str | None
    skipped: int  # ticks that never ran, of all that were missed
    missed: int  # ticks of the last gap
    missed_from: datetime | None
    missed_to: datetime | None


class EffectInfo(Struct, frozen=True):
    """An effect: one call of a tool that acts, and what is known about it.

    `status` is intended (it is being carried out, or will be), done, failed, or unknown: it was
    started, and its outcome was not recorded. `kind` and `of` name the thread, workflow or task
    that it belongs to, `call` the call. `args` and `kwargs` are None if they were not JSON.
    """

    id: str
    status: str
    name: str  # of the function or tool
    kind: str
    of: str
    call: str
    user: str | None
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    key: str  # what `idempotency_key()` is in it, at every try
    keyed: bool  # whether the function passes the key on
    result: Any
    error: str | None  # of a failed one; of an unknown one, what is known of why
    decided: str | None  # who said how it ended: "reconcile", "retry", or a person
    tries: int  # how often someone took it in hand
    created_at: datetime
    updated_at: datetime
    cursor: str = ""  # for `after=`, to continue after it in a listing


class Done(Struct, frozen=True):
    """Returned by a `reconcile` function: the effect happened, and this is its result."""

    result: Any = None


class NotDone(Struct, frozen=True):
    """Returned by a `reconcile` function: the effect did not happen."""


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
    for what has another version now, or none, and whose earlier version is not kept; `shortened`
    for texts that were cut to fit and are shown in full; `unknown` if the thread no longer has the
    information.
    """

    what: Literal["message", "summary", "document", "workflow"]
    name: str
    why: Literal["edited", "removed", "trimmed", "changed", "deleted", "shortened", "unknown"]


class Knowledge(Struct, frozen=True):
    """What an agent was given when it wrote a turn, from `store.knew`.

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


class Folded(Struct, frozen=True):
    """The state a journal's events fold to, at `version`; `events` were folded by this call."""

    state: Any
    version: int
    cursor: Cursor
    events: int


class Exported(Struct, frozen=True, repr_omit_defaults=True):
    """What an export has written."""

    path: str
    entities: int
    messages: int
    documents: int
    replica: str | None = None  # whose own state it covers; None: all that the user has
    versions: int = 0  # of documents, as they were: see `history`


class ErasureReceipt(Struct, frozen=True, repr_omit_defaults=True):
    """What an erasure removed, by kind. Keep it: it contains no content.

    Until `remembered_until` the store keeps the bare ids of what was erased, so that a delayed
    write cannot bring any of it back.
    """

    user: str
    at: datetime
    removed: dict[str, int]
    remembered_until: datetime
    replica: str | None = None  # whose own state it covers; None: all that the user had


class Health(Struct, frozen=True, repr_omit_defaults=True):
    """Whether the store answers. If not, `error` says why, in words."""

    ok: bool
    engine: str | None = None
    version: str | None = None
    schema: int | None = None
    durability: str | None = None
    bytes: int | None = None
    latency: float | None = None  # seconds the store took to answer
    error: str | None = None
    parts: dict[str, Health] = {}  # of a layered store, by what lives there
    breaker: str = "closed"  # "open": calls fail immediately
    spill_depth: int = 0  # appends kept locally that wait for the store
    spill_bytes: int = 0
    spill_problem: str | None = None  # why they are kept in memory alone
    alarms: tuple[str, ...] = ()  # the names of those that are up


class ReplicaCounts(Struct, frozen=True):
    """What a process has counted since it opened the store, and its current state.

    Latencies are in seconds, between its last two heartbeats; None: there were no such calls.
    """

    reads: int = 0  # that were answered
    writes: int = 0
    failures: int = 0  # reads and writes that failed, also where the caller was spared it
    conflicts: int = 0
    suppressed: int = 0
    spilled: int = 0
    dropped: int = 0
    lost: int = 0
    kept: int = 0  # turns that wait on its machine now
    context_breaks: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    alarms: tuple[str, ...] = ()  # the names of those that are up
    read_p50: float | None = None
    read_p99: float | None = None
    write_p50: float | None = None
    write_p99: float | None = None


class ReplicaInfo(Struct, frozen=True):
    """A process that has or had a store open, according to its last heartbeat."""

    id: str
    status: Literal["alive", "closed", "gone"]  # "gone": it stopped without closing the store
    host: str
    pid: int
    version: str  # of Stateward
    namespace: str
    engine: str
    replica: str | None  # the name it was given with `replica=`
    every: float  # seconds between two of its heartbeats
    started_at: datetime  # by its own clock
    beat_at: datetime  # by the store's
    counts: ReplicaCounts

    @property
    def alive(self) -> bool:
        """Whether it sent a heartbeat within three intervals, by the store's clock."""
        return self.status == "alive"


class Concern(Struct, frozen=True):
    """An entity that an event concerned: a conversation, a workflow, a task …"""

    kind: str
    id: str


class SignalPoint(Struct, frozen=True):
    """What all processes measured in the `seconds` from `at` on.

    `concerned` has, by event ("suppressed", "conflicts" …), the most recent entities concerned.
    """

    at: datetime
    seconds: float
    replicas: int = 0  # processes that measured anything
    lookups: int = 0  # that were answered or failed
    lookup_p50: float | None = None  # seconds; None: no lookups
    lookup_p95: float | None = None
    lookup_p99: float | None = None
    writes: int = 0
    failures: int = 0  # reads and writes that failed, also where the caller was spared it
    conflicts: int = 0
    fenced: int = 0  # writes under a lease that another had by then
    went_back: int = 0  # the store showed less than it had shown
    suppressed: int = 0
    dropped: int = 0
    lost: int = 0
    late: int = 0  # turns brought to the store after newer ones
    context_breaks: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    kept: int = 0  # turns that waited on the machines of the processes, at most
    breakers_open: int = 0  # processes whose breaker was open
    storage_bytes: int | None = None  # the last that is known
    concerned: dict[str, tuple[Concern, ...]] = {}


class Signals(Struct, frozen=True):
    """What was measured over time. Points without measurements are left out."""

    since: datetime
    until: datetime
    step: float  # seconds of a point
    points: tuple[SignalPoint, ...]
    total: SignalPoint  # all of them together


class AuditInfo(Struct, frozen=True):
    """A summary of what an audit found."""

    id: str
    kept_at: datetime | None = None  # by the store's clock
    started: str = ""  # ISO 8601, UTC
    title: str = ""  # what was audited, in words
    target: str = ""
    verdict: str = "unknown"
    sentence: str = ""  # the verdict in one sentence
    profile: str = ""
    seed: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    answers: dict[str, int] = {}  # how many questions have which verdict
    bytes: int = 0  # of the report


class KeptAudit(Struct, frozen=True):
    """A stored audit report: its `report.json`."""

    info: AuditInfo
    report: bytes


class LoggedOperation(Struct, frozen=True):
    """One entry of the operations log: a manual change that was intended, or how it ended.

    `hash` covers everything else, including `previous`; the next entry has it as its `previous`.
    """

    number: int
    at: datetime  # by the store's clock
    who: str
    what: str  # e.g. "lock break"
    target: str  # kind/id; of a user, a digest of the id
    outcome: Literal["intended", "done", "failed"]
    of: int | None = None  # the number of the entry that says it was intended
    correlation: str | None = None
    detail: dict[str, Any] = {}
    previous: str = ""
    hash: str = ""


class OperationsCheck(Struct, frozen=True):
    """Whether an operations log is intact, from its oldest kept entry on."""

    entries: int
    base: int  # the number up to which entries were trimmed
    head: str  # NUMBER:HASH of the last entry, to be kept elsewhere; "": there is none
    problems: tuple[str, ...] = ()  # what was changed, removed, inserted or put in another order
    unended: tuple[int, ...] = ()  # intended, in progress or cut off: no one knows whether done

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def moment(seconds: float) -> datetime:
    """A time of the engine's clock as a UTC datetime; one beyond the calendar is its last."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError):  # one wrong time must not make a listing unreadable
        return datetime.max.replace(tzinfo=UTC)
