"""Records that the public methods return: plain, frozen, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct, json

from stateward.codec import MOST, shown
from stateward.errors import InvalidInput
from stateward.ops import digest_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default; not needed at run time

    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")

Redact = Callable[[dict[str, Any]], dict[str, Any]]


class MessageShape(Struct, frozen=True):
    """Describes a message in your own format to a window: `open(…, shape=…)`.

    `calls` are the ids of the tool calls it makes, `results` those of the calls it answers, `text`
    is its text exactly as in the message, which may be cut if it is too long.
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
            "cursor of a window or change"
        )


class Summary(Struct, frozen=True):
    """The summary of a conversation's older turns: of all messages up to version `upto`."""

    text: str
    upto: int
    messages: int  # how many messages it covers
    made_at: datetime


class Appended(Struct, frozen=True):
    """The outcome of an append.

    `stored`: it is in the store. `unreplicated`: it is, and can be read, but too few replicas have
    confirmed it in time, so a failover now could lose it. `duplicate`: an append with the same key
    already was. `spilled`: the store failed; the messages are on this machine, and are stored when
    the store answers again. `dropped`: the store failed and there was no room to spill: they are
    lost. For the last two the version is 0, because it is not known yet. With `repeat="first"`,
    `messages` are those stored under the key, possibly by another delivery.
    """

    status: Literal["stored", "unreplicated", "duplicate", "spilled", "dropped"]
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
    waits: tuple[Awaited, ...] = ()  # empty while it is driven
    driver: str | None = None  # the process that has its lease, or died with it
    last_error: str | None = None  # of the last failed step, even if the code handled it
    failed_step: str | None = None  # that step
    attempt: int = 0  # the number of its tries by this driver until then

    @property
    def digest(self) -> int:
        """64 bits that change when any field changes, regardless of when it was last updated."""
        fields = (self.id, self.kind, self.user, self.status, self.step, self.state, self.error)
        return digest_of((json.encode(fields, order="sorted").decode(),))


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
    attempt: int  # how often it was started: failures, deaths, and the run in progress
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
    key: str  # returned by `idempotency_key()` in it, at every try
    keyed: bool  # whether the function passes the key on
    result: Any
    error: str | None  # of a failed one; of an unknown one, the reason if known
    decided: str | None  # how its outcome was decided: "reconcile", "retry", or by a person
    tries: int  # how often it was claimed
    created_at: datetime
    updated_at: datetime
    cursor: str = ""  # for `after=`, to continue after it in a listing


class Done(Struct, frozen=True):
    """Returned by a `reconcile` function: the effect happened, and this is its result."""

    result: Any = None


class NotDone(Struct, frozen=True):
    """Returned by a `reconcile` function: the effect did not happen."""


class Folded(Struct, frozen=True):
    """The state a journal's events fold to, at `version`; `events` were folded by this call."""

    state: Any
    version: int
    cursor: Cursor
    events: int


class Exported(Struct, frozen=True, repr_omit_defaults=True):
    """The outcome of an export."""

    path: str
    entities: int
    messages: int
    documents: int
    replica: str | None = None  # whose own state it covers; None: all that the user has
    versions: int = 0  # of documents, as they were: see `history`


class ErasureReceipt(Struct, frozen=True, repr_omit_defaults=True):
    """The outcome of an erasure: how many entities of each kind. Keep it: it has no content.

    Until `remembered_until` the store keeps the bare ids of what was erased, so that a delayed
    write cannot bring any of it back.
    """

    user: str
    at: datetime
    removed: dict[str, int]
    remembered_until: datetime
    replica: str | None = None  # whose own state it covers; None: all that the user had


class Health(Struct, frozen=True, repr_omit_defaults=True):
    """Whether the store answers, and keeps what its URL promises. If not, `error` has the reason.

    A store that `answers` without being ok has too few replicas for `wait_replicas`.
    """

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
    spill_depth: int = 0  # spilled appends that wait for the store
    spill_bytes: int = 0
    spill_problem: str | None = None  # why they are in memory alone, or will never be stored
    spill_refused: int = 0  # turns that the store refused, each in a file of its own
    alarms: tuple[str, ...] = ()  # the names of those that are up
    answers: bool = True  # for probes: other processes would fare no better


class ReplicaCounts(Struct, frozen=True):
    """The counts of a process since it opened the store, and its current state.

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
    kept: int = 0  # spilled turns that wait on its machine
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
        """Whether the process sent a heartbeat within three intervals, by the store's clock."""
        return self.status == "alive"


class Concern(Struct, frozen=True):
    """An entity that an event concerned: a conversation, a workflow, a task …"""

    kind: str
    id: str


class SignalPoint(Struct, frozen=True):
    """Measurements of all processes in the `seconds` from `at` on.

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
    fenced: int = 0  # writes refused because another process had the lease
    went_back: int = 0  # reads that returned less than earlier ones
    suppressed: int = 0
    dropped: int = 0
    lost: int = 0
    late: int = 0  # turns brought to the store after newer ones
    context_breaks: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    kept: int = 0  # the most spilled turns that waited on all machines
    breakers_open: int = 0  # processes whose breaker was open
    storage_bytes: int | None = None  # the latest reading
    concerned: dict[str, tuple[Concern, ...]] = {}


class Signals(Struct, frozen=True):
    """Measurements over time. Points without measurements are left out."""

    since: datetime
    until: datetime
    step: float  # seconds of a point
    points: tuple[SignalPoint, ...]
    total: SignalPoint  # all of them together


class AuditInfo(Struct, frozen=True):
    """A summary of an audit report."""

    id: str
    kept_at: datetime | None = None  # by the store's clock
    started: str = ""  # ISO 8601, UTC
    title: str = ""  # the audited store, in words
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
    of: int | None = None  # the number of its "intended" entry
    correlation: str | None = None
    detail: dict[str, Any] = {}
    previous: str = ""
    hash: str = ""


class OperationsCheck(Struct, frozen=True):
    """Whether an operations log is intact, from its oldest entry on."""

    entries: int
    base: int  # the number up to which entries were trimmed
    head: str  # NUMBER:HASH of the last entry, to be stored elsewhere; "": no entries
    problems: tuple[str, ...] = ()  # entries that were changed, removed, inserted or reordered
    unended: tuple[int, ...] = ()  # intended, without an outcome: perhaps done
    confirmed: int = 0  # up to this entry, a head that was compared with confirms it

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def moment(seconds: float) -> datetime:
    """Return a time of the engine's clock as a UTC datetime, `datetime.max` at most."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError):  # one wrong time must not make a listing unreadable
        return datetime.max.replace(tzinfo=UTC)
