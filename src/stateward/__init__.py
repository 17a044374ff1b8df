"""Stateward keeps the state of AI agents: conversations, users, work in progress.

    async with stateward.open("sqlite:///agents.db") as store:
        thread = store.thread("s-abc123", user="u-42")
        await thread.append({"role": "user", "content": "Medium rare, please."})
        window = await thread.load(last=20)

`stateward.sync` has the same names for blocking code.
"""

from __future__ import annotations

__version__ = "0.2.0"

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

from stateward.codec import Limits
from stateward.context.compaction import Compaction
from stateward.errors import (
    AccessRefused,
    BackupDamaged,
    ConversationDeletedError,
    DiskProblem,
    EffectUnknown,
    EntityBusy,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotKept,
    NotLaidOut,
    NotPermitted,
    NotReplicated,
    NotYoursError,
    Permanent,
    Reset,
    SchemaError,
    StateConflictError,
    StatewardError,
    StepFailed,
    StoreClosed,
    StoreFull,
    StoreMisused,
    StoreTooSlow,
    StoreUnavailable,
    TaskCancelled,
    TaskFailed,
    TooFewReplicas,
    TooLarge,
    Truncated,
    TurnStopped,
    WindowTooSmall,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowFinished,
    WrongReplica,
)
from stateward.layers.cache_memory import Cache
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm, AlarmEvent
from stateward.observe.correlation import correlate, correlation_id
from stateward.observe.counters import Counters
from stateward.observe.metrics import Metrics
from stateward.records import (
    Appended,
    AuditInfo,
    Awaited,
    Branch,
    Change,
    Concern,
    Cursor,
    Document,
    DocumentVersion,
    Done,
    EffectInfo,
    EntityChange,
    ErasureReceipt,
    Exported,
    Folded,
    Health,
    Late,
    LoggedOperation,
    MessageShape,
    NotDone,
    OpenQuestion,
    OperationsCheck,
    Origin,
    ReplicaCounts,
    ReplicaInfo,
    ScheduleInfo,
    SignalPoint,
    Signals,
    Summary,
    TaskInfo,
    ThreadInfo,
    WorkflowInfo,
)
from stateward.state.documents import DocumentHandle
from stateward.state.locks import Lock
from stateward.state.past import Keep
from stateward.state.thread_listener import ThreadListener
from stateward.state.threads import Thread
from stateward.state.turns import Turn
from stateward.state.users import Shared, User
from stateward.state.window_record import Context, Unanswered, Window
from stateward.state.work import idempotency_key
from stateward.store import Store, open
from stateward.volumes.route import route

if TYPE_CHECKING:
    import stateward.sync  # noqa: F401  # async only
    from stateward.state.effects import Effect
    from stateward.state.journals import Journal
    from stateward.state.operations_log import OperationsLog
    from stateward.state.replaced_record import Replaced
    from stateward.state.run import Run
    from stateward.state.schedules import Schedule
    from stateward.state.stream_record import LiveAnswer, LiveEvent
    from stateward.state.tasks import Task
    from stateward.state.workflows import Workflow

# Classes of handles that are named in annotations, if at all: imported when they are asked for.
_LATE = {
    "Effect": "stateward.state.effects",
    "Journal": "stateward.state.journals",
    "OperationsLog": "stateward.state.operations_log",
    "LiveAnswer": "stateward.state.stream_record",
    "LiveEvent": "stateward.state.stream_record",
    "Replaced": "stateward.state.replaced_record",
    "Run": "stateward.state.run",
    "Schedule": "stateward.state.schedules",
    "Task": "stateward.state.tasks",
    "Workflow": "stateward.state.workflows",
}

__all__ = [
    "AccessRefused",
    "Alarm",
    "AlarmEvent",
    "Appended",
    "AuditInfo",
    "Awaited",
    "BackupDamaged",
    "Branch",
    "Cache",
    "Change",
    "Compaction",
    "Concern",
    "Context",
    "ConversationDeletedError",
    "Counters",
    "Cursor",
    "DiskProblem",
    "Document",
    "DocumentHandle",
    "DocumentVersion",
    "Done",
    "Effect",
    "EffectInfo",
    "EffectUnknown",
    "EntityBusy",
    "EntityChange",
    "ErasureReceipt",
    "Exported",
    "Folded",
    "Health",
    "InvalidInput",
    "Journal",
    "Keep",
    "KeyReusedError",
    "Late",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "LiveAnswer",
    "LiveEvent",
    "Lock",
    "LoggedOperation",
    "MessageShape",
    "Metrics",
    "NotDone",
    "NotKept",
    "NotLaidOut",
    "NotPermitted",
    "NotReplicated",
    "NotYoursError",
    "OpenQuestion",
    "OperationsCheck",
    "OperationsLog",
    "Origin",
    "Permanent",
    "Policy",
    "Replaced",
    "ReplicaCounts",
    "ReplicaInfo",
    "Reset",
    "Run",
    "Schedule",
    "ScheduleInfo",
    "SchemaError",
    "Shared",
    "SignalPoint",
    "Signals",
    "Spill",
    "StateConflictError",
    "StatewardError",
    "StepFailed",
    "Store",
    "StoreClosed",
    "StoreFull",
    "StoreMisused",
    "StoreTooSlow",
    "StoreUnavailable",
    "Summary",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskInfo",
    "Thread",
    "ThreadInfo",
    "ThreadListener",
    "TooFewReplicas",
    "TooLarge",
    "Truncated",
    "Turn",
    "TurnStopped",
    "Unanswered",
    "User",
    "Window",
    "WindowTooSmall",
    "Workflow",
    "WorkflowCancelled",
    "WorkflowFailed",
    "WorkflowFinished",
    "WorkflowInfo",
    "WrongReplica",
    "correlate",
    "correlation_id",
    "idempotency_key",
    "open",
    "route",
]


def __getattr__(name: str) -> Any:
    if name == "sync":  # async only
        return _import("stateward.sync")  # async only
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    names = {*globals(), *_LATE}
    names.add("sync")  # async only
    return sorted(names)
