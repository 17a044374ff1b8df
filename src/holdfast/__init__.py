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
from holdfast.errors import (
    DiskProblem,
    HoldfastError,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    Reset,
    SchemaError,
    StateConflictError,
    StoreMisused,
    StoreUnavailable,
    TooLarge,
    Truncated,
)
from holdfast.layers.policy import Policy
from holdfast.records import (
    Appended,
    Change,
    Context,
    Cursor,
    Document,
    Exported,
    Health,
    Receipt,
    ThreadInfo,
    Window,
    WorkflowInfo,
)
from holdfast.routing import route
from holdfast.store import Store, open

__all__ = [
    "Appended",
    "Change",
    "Context",
    "Cursor",
    "DiskProblem",
    "Document",
    "Exported",
    "Health",
    "HoldfastError",
    "InvalidInput",
    "KeyReusedError",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "NotYoursError",
    "Policy",
    "Receipt",
    "Reset",
    "SchemaError",
    "StateConflictError",
    "Store",
    "StoreMisused",
    "StoreUnavailable",
    "ThreadInfo",
    "TooLarge",
    "Truncated",
    "Window",
    "WorkflowInfo",
    "open",
    "route",
]
