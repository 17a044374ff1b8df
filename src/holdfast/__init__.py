"""Holdfast keeps the state of AI agents: conversations, users, work in progress.

    async with holdfast.open("sqlite:///agents.db") as store:
        thread = store.thread("s-abc123", user="u-42")
        await thread.append({"role": "user", "content": "Medium rare, please."})
        window = await thread.load(last=20)

`holdfast.sync` has the same names for blocking code.
"""

from __future__ import annotations

__version__ = "0.1.0"

from holdfast.alarm import Alarm, AlarmEvent
from holdfast.codec import Limits
from holdfast.context.compaction import Compaction
from holdfast.correlation import correlate, correlation_id
from holdfast.counters import Counters
from holdfast.errors import (
    BackupDamaged,
    DiskProblem,
    HoldfastError,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotLaidOut,
    NotYoursError,
    Permanent,
    Reset,
    SchemaError,
    StateConflictError,
    StoreMisused,
    StoreTooSlow,
    StoreUnavailable,
    TaskFailed,
    TooLarge,
    Truncated,
    WindowTooSmall,
    WorkflowFinished,
    WrongReplica,
)
from holdfast.keys import idempotency_key
from holdfast.layers.policy import Policy
from holdfast.layers.remembered import Cache
from holdfast.layers.spill import Spill
from holdfast.metrics import Metrics
from holdfast.records import (
    Appended,
    Change,
    Context,
    Cursor,
    Document,
    Exported,
    Folded,
    Health,
    Late,
    Receipt,
    Summary,
    TaskInfo,
    ThreadInfo,
    Window,
    WorkflowInfo,
)
from holdfast.routing import route
from holdfast.state.documents import DocumentHandle
from holdfast.state.journals import Journal
from holdfast.state.locks import Lock
from holdfast.state.runs import Run
from holdfast.state.threads import Thread
from holdfast.state.users import Shared, User
from holdfast.state.workflows import Workflow
from holdfast.store import Store, open

__all__ = [
    "Alarm",
    "AlarmEvent",
    "Appended",
    "BackupDamaged",
    "Cache",
    "Change",
    "Compaction",
    "Context",
    "Counters",
    "Cursor",
    "DiskProblem",
    "Document",
    "DocumentHandle",
    "Exported",
    "Folded",
    "Health",
    "HoldfastError",
    "InvalidInput",
    "Journal",
    "KeyReusedError",
    "Late",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "Lock",
    "Metrics",
    "NotLaidOut",
    "NotYoursError",
    "Permanent",
    "Policy",
    "Receipt",
    "Reset",
    "Run",
    "SchemaError",
    "Shared",
    "Spill",
    "StateConflictError",
    "Store",
    "StoreMisused",
    "StoreTooSlow",
    "StoreUnavailable",
    "Summary",
    "TaskFailed",
    "TaskInfo",
    "Thread",
    "ThreadInfo",
    "TooLarge",
    "Truncated",
    "User",
    "Window",
    "WindowTooSmall",
    "Workflow",
    "WorkflowFinished",
    "WorkflowInfo",
    "WrongReplica",
    "correlate",
    "correlation_id",
    "idempotency_key",
    "open",
    "route",
]
