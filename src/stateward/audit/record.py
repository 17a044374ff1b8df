"""Record of an audit: facts alone, no judgement. Questions are functions of it.

A record can be saved as JSON and judged again later, by other thresholds.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

FORMAT = 1  # to be raised when records saved before a change cannot be judged after it


class Sessions(Struct, frozen=True):
    """Turns written in one process, which was then killed, and read in a new one."""

    written: dict[str, list[str]]  # by thread: the contents that were acknowledged
    read: dict[str, list[str]]


class Preferences(Struct, frozen=True):
    """Documents written in one process, which was then killed, and read in a new one."""

    written: dict[str, tuple[Any, int | None]]  # by user: value and version
    read: dict[str, tuple[Any, int | None]]


class WorkflowRun(Struct, frozen=True):
    """One workflow whose driver was killed while a step was in progress."""

    id: str
    steps: list[str]  # all of them, in order
    finished: list[str]  # recorded as finished before the kill
    under_way: str  # the step during which the driver was killed
    afterwards: list[str]  # steps run by the replica that took over
    completed: bool


class Look(Struct, frozen=True):
    """One look of a replica at what another had just written and acknowledged."""

    what: str  # "turn" or "preference"
    writer: int
    reader: int
    seen: bool
    detail: str = ""


class Drill(Struct, frozen=True):
    """A backup under load, restored elsewhere."""

    before: int  # turns acknowledged before the backup began
    restored: dict[str, list[int]]  # by thread: the numbers of the turns that came back
    written: dict[str, list[int]]  # by thread: the numbers of all turns, in order
    users_equal: bool
    backup_seconds: float
    restore_seconds: float
    moment: str  # "store": one point in time; "entity": each entity in itself
    by: str = "stateward backup"


class Level(Struct, frozen=True):
    """An open-loop load at one number of conversations; ms from the intended start."""

    conversations: int
    seconds: float
    intended: float  # calls a second
    achieved: float
    lookups: int
    failed: int
    windows: list[float]  # p95 of lookups in each third
    p50: float
    p95: float
    p99: float
    lag: float  # p99 of how late an idle clock in the generator woke, ms
    moments: list[tuple[float, float, float, float, float, float, int]]
    errors: dict[str, int] = {}


class Length(Struct, frozen=True):
    """Lookups of the last messages of a history of this length, ms."""

    messages: int
    p50: float
    p95: float
    p99: float


class Doubling(Struct, frozen=True):
    """Load during which the number of replicas was doubled; ms from the intended start.

    `cold` are the first lookups of each that joined, `warm` those of the others in the meantime.
    """

    before: int  # replicas
    after: int
    lookups: int  # cold ones
    cold_p50: float
    cold_p95: float
    warm_p50: float
    warm_p95: float
    lag: float  # p99 of how late an idle clock in the generators woke, ms


class Tried(Struct, frozen=True):
    """One call while the store was disturbed."""

    what: str  # "read" or "append"; of users' state "user" or "change"
    at: float  # seconds from the beginning of the disturbances
    seconds: float
    outcome: str  # "stored", "kept", "read", or "error"
    error: str = ""
    typed: bool = True  # an error that says the store is unavailable
    complete: bool = True  # a read that gave all that had been acknowledged
    missing: int = 0  # turns that another replica had stored before it, and that it did not give


class Outage(Struct, frozen=True):
    """One disturbance: the calls made in the meantime, and the state found afterwards."""

    fault: str
    fired: bool
    start: float
    end: float
    tried: list[Tried]
    accepted: list[str]  # turns acknowledged, or kept for later
    found: list[str]  # turns that a new process found afterwards
    recovery: float | None  # seconds until it answered again; None: it did not
    hung: int = 0  # calls that never came back
    kills: int = 0  # times that the server itself was ended and came back
    unreadable: str = ""  # why a new process could not read afterwards, once the store was back
    elsewhere: int = 0  # turns that another replica stored in the meantime
    changed: list[str] = []  # changes of users' state that were acknowledged
    kept_changes: list[str] = []  # acknowledged changes that a new process found
    in_turn: list[str] = []  # turns kept for later, each begun when the one before was accepted


class Monitoring(Struct, frozen=True):
    """Figures of the target's own metrics under load, and its alarm."""

    source: str
    lookups: int | None  # counted by the target; None: no such figure
    percentiles: dict[str, float | None]
    outage: bool  # whether an outage was really made
    suppressed: int
    alarm: str | None  # the name of the alarm that came
    alarm_after: float | None  # seconds from the tenth suppressed write
    made: int = 0  # lookups
    counted: int | None = None  # lookups counted by the target; None: not known
    median: float | None = None  # median seconds of a lookup for the caller
    early: str = ""  # an alarm that had come before anything was wrong
    slow: float | None = None  # the slowest twelfth of these, as the caller saw it, seconds
    idle: float | None = None  # and as much of calls that do nothing
    idle_median: float | None = None
    refused: int = 0  # writes that raised in the outage


class TurnRace(Struct, frozen=True):
    """Replicas appended to one conversation concurrently, each turn delivered twice."""

    acknowledged: list[str]  # turns
    order: list[tuple[str, int]]  # what is stored: turn and part, in order
    parts: int  # messages a turn
    unreadable: str = ""  # why the conversation could not be read any more
    failed: dict[str, int] = {}  # appends that raised, by error


class TaskRace(Struct, frozen=True):
    """Replicas ran the same tasks at the same time."""

    tasks: int
    runs: dict[str, int]  # by task: how often its function ran
    results: dict[str, list[str]]  # by task: the results that replicas were given
    errors: int = 0


class LockRace(Struct, frozen=True):
    """The holder of a lock was paused until another had it, then woke and wrote."""

    rounds: int
    taken_over: int  # rounds in which the other got the lock
    refused: int
    accepted: int  # writes of the superseded holder that the store took
    both_held: int = 0


class Updates(Struct, frozen=True):
    """Read-modify-write of one document by several replicas at the same time."""

    acknowledged: int
    unknown: int
    final: int
    replicas: int


class Conflicts(Struct, frozen=True):
    """A write for a version that is no longer the current one."""

    forced: int
    detected: int
    both_versions: int  # conflicts that told the expected and the current version
    overwritten: int
    resolved: int  # afterwards by reading again
    example: str = ""


class Step(Struct, frozen=True):
    """One append to or read of a list, for the checker of consistency."""

    process: int
    invoked: float
    completed: float
    status: str
    what: str
    key: str
    values: list[str]


class Growing(Struct, frozen=True):
    """The store's own size before and after so many turns."""

    turns: int
    bytes_before: int | None
    bytes_after: int | None
    capacity: int | None
    usual: int = 0  # messages that the conversations had on average
    long: int = 0  # messages of one that was long already
    long_turns: int = 0  # turns added to that
    bytes_long: int | None = None  # and the store's size after those
    updates: int = 0  # of one user's state, whose size stays the same
    document: int = 0  # bytes that it has
    bytes_updated: int | None = None  # and the store's size after those
    more_updates: int = 0  # if it had grown by then: it may keep some versions, and no more
    bytes_more: int | None = None  # and the store's size after those, too


class Costs(Struct, frozen=True):
    """Resources that a replica takes."""

    replicas: int
    pool: int | None  # connections a replica may open
    max_connections: int | None
    memory_a_replica: int | None  # bytes, resident
    conversations: int
    written_a_turn: float | None  # bytes that reached the disk or the network, a turn


class Read(Struct, frozen=True):
    """Settings as read from the store; `blocked` names settings that it did not disclose."""

    engine: str
    version: str
    durability: str
    values: dict[str, Any]
    blocked: list[str] = []


class CostBySize(Struct, frozen=True):
    """Times of a call while something grew: several measurements at each size, ms."""

    call: str  # "append", "load"
    of: str  # what grew: "the conversation", "the store"
    sizes: list[int]  # messages
    took: list[list[float]]


class Counterexample(Struct, frozen=True):
    """Smallest example of a broken promise: the action, the expected result and the real one."""

    done: str
    expected: str
    found: str
    kind: str = ""  # class of difference


class Check(Struct, frozen=True):
    """Result of trying one promise a number of times."""

    promise: str
    tried: int
    differing: int = 0
    examples: list[Counterexample] = []  # the first of each class of difference
    kinds: dict[str, int] = {}  # how many differ in which way; "" as the promise itself says
    refused: list[str] = []  # values refused by an error, so not changed in silence


class Record(Struct):
    """Everything that one audit recorded. None: that was not done, so nothing is known."""

    format: int = FORMAT
    target: str = ""
    title: str = ""
    provides: list[str] = []
    profile: str = ""
    seed: int = 0
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    aborted: str = ""  # why it ended itself
    left: str = ""  # data that could not be removed
    sessions: Sessions | None = None
    preferences: Preferences | None = None
    workflows: list[WorkflowRun] | None = None
    sharing: list[Look] | None = None
    drill: Drill | None = None
    levels: list[Level] | None = None
    lengths: list[Length] | None = None
    doubling: Doubling | None = None
    outages: list[Outage] | None = None
    monitoring: Monitoring | None = None
    turn_race: TurnRace | None = None
    long_race: TurnRace | None = None  # the same in a conversation that is long already
    task_race: TaskRace | None = None
    lock_race: LockRace | None = None
    updates: Updates | None = None
    conflicts: Conflicts | None = None
    steps: list[Step] | None = None
    growing: Growing | None = None
    costs: Costs | None = None
    settings: Read | None = None
    fidelity: list[Check] | None = None
    windows: list[Check] | None = None
    keys: list[Check] | None = None
    isolation: list[Check] | None = None
    lock_checks: list[Check] | None = None
    task_checks: list[Check] | None = None
    workflow_checks: list[Check] | None = None
    version_checks: list[Check] | None = None
    update_checks: list[Check] | None = None
    kill_checks: list[Check] | None = None
    lasting: list[Check] | None = None
    costs_by_size: list[CostBySize] | None = None
    retention: list[Check] | None = None
    effects: list[Check] | None = None
    orphans: list[Check] | None = None
    erasure: list[Check] | None = None
    context: list[Check] | None = None
    declared: dict[str, Any] = {}
    expected: list[str] | None = None  # parts that the target is meant to have; None: all
    problems: dict[str, str] = {}  # workload → why it could not be carried out
    notes: dict[str, str] = {}  # workload → why it could not be tried at this target
    skipped: list[str] = []  # workloads that were not asked for
    took: dict[str, float] = {}  # seconds by workload
    environment: dict[str, Any] = {}

    def expects(self, part: str) -> bool:
        """Return True if the target has this part, or should have it."""
        return self.expected is None or part in self.expected or part in self.provides
