"""Holdfast keeps the state of AI agents: conversations, users, work in progress.

    async with holdfast.open("sqlite:///agents.db") as store:
        thread = store.thread("s-abc123", user="u-42")
        await thread.append({"role": "user", "content": "Medium rare, please."})
        window = await thread.load(last=20)

`holdfast.sync` has the same names for blocking code.
"""

from __future__ import annotations

__version__ = "0.1.0"

from holdfast.codec import Limits
from holdfast.context.compaction import Compaction
from holdfast.errors import (
    BackupDamaged,
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
    WindowTooSmall,
    WorkflowFinished,
    WrongReplica,
)
from holdfast.keys import idempotency_key
from holdfast.layers.policy import Policy
from holdfast.layers.remembered import Cache
from holdfast.records import (
    Appended,
    Change,
    Context,
    Cursor,
    Document,
    Exported,
    Folded,
    Health,
    Receipt,
    Summary,
    TaskInfo,
    ThreadInfo,
    Window,
    WorkflowInfo,
)
from holdfast.routing import route
from holdfast.store import Store, open

__all__ = [
    "Appended",
    "BackupDamaged",
    "Cache",
    "Change",
    "Compaction",
    "Context",
    "Cursor",
    "DiskProblem",
    "Document",
    "Exported",
    "Folded",
    "Health",
    "HoldfastError",
    "InvalidInput",
    "KeyReusedError",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "NotYoursError",
    "Permanent",
    "Policy",
    "Receipt",
    "Reset",
    "SchemaError",
    "StateConflictError",
    "Store",
    "StoreMisused",
    "StoreTooSlow",
    "StoreUnavailable",
    "Summary",
    "TaskFailed",
    "TaskInfo",
    "ThreadInfo",
    "TooLarge",
    "Truncated",
    "Window",
    "WindowTooSmall",
    "WorkflowFinished",
    "WorkflowInfo",
    "WrongReplica",
    "idempotency_key",
    "open",
    "route",
]
