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
from holdfast.correlation import correlate, correlation_id
from holdfast.counters import Counters
from holdfast.errors import (
    DiskProblem,
    HoldfastError,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
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
    WorkflowFinished,
)
from holdfast.keys import idempotency_key
from holdfast.layers.policy import Policy
from holdfast.layers.spill import Spill
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
    TaskInfo,
    ThreadInfo,
    Window,
    WorkflowInfo,
)
from holdfast.routing import route
from holdfast.store import Store, open

__all__ = [
    "Alarm",
    "AlarmEvent",
    "Appended",
    "Change",
    "Context",
    "Counters",
    "Cursor",
    "DiskProblem",
    "Document",
    "Exported",
    "Folded",
    "Health",
    "HoldfastError",
    "InvalidInput",
    "KeyReusedError",
    "Late",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "NotYoursError",
    "Permanent",
    "Policy",
    "Receipt",
    "Reset",
    "SchemaError",
    "Spill",
    "StateConflictError",
    "Store",
    "StoreMisused",
    "StoreTooSlow",
    "StoreUnavailable",
    "TaskFailed",
    "TaskInfo",
    "ThreadInfo",
    "TooLarge",
    "Truncated",
    "Window",
    "WorkflowFinished",
    "WorkflowInfo",
    "correlate",
    "correlation_id",
    "idempotency_key",
    "open",
    "route",
]
