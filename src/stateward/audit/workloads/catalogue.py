"""Every workload, in the order of their runs."""

from __future__ import annotations

from importlib import import_module

from stateward.audit.workloads.keepsakes import BEGIN
from stateward.audit.workloads.settings import WORKLOAD as SETTINGS
from stateward.audit.workloads.workload import Workload

_ORDER = (
    "sessions",
    "preferences",
    "shared_state",
    "fidelity",
    "windows",
    "keys",
    "isolation",
    "kills",
    "orphans",
    "context",
    "erasure",
    "turn_races",
    "task_races",
    "tasks",
    "effects",
    "lock_races",
    "locks",
    "updates",
    "document_updates",
    "conflicts",
    "version_conflicts",
    "consistency",
    "workflows",
    "workflow_faults",
    "load",
    "more_replicas",
    "history",
    "slowdown",
    "outage",
    "alarms",
    "backup",
    "growth",
    "retention",
    "keepsakes",
)
WORKLOADS: tuple[Workload, ...] = (
    SETTINGS,
    BEGIN,
    *(import_module(f"stateward.audit.workloads.{name}").WORKLOAD for name in _ORDER),
)
