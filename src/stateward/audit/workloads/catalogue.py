"""Every workload, in the order in which they are run."""

from __future__ import annotations

from stateward.audit.workloads import (
    alarms,
    conflicts,
    drill,
    growth,
    history,
    lists,
    load,
    locks,
    more_replicas,
    outage,
    preferences,
    sessions,
    settings,
    shared_state,
    tasks,
    turns,
    updates,
    workflows,
)
from stateward.audit.workloads.workload import Workload

WORKLOADS: tuple[Workload, ...] = tuple(
    module.WORKLOAD
    for module in (
        settings,
        sessions,
        preferences,
        shared_state,
        turns,
        tasks,
        locks,
        updates,
        conflicts,
        lists,
        workflows,
        load,
        more_replicas,
        history,
        outage,
        alarms,
        drill,
        growth,
    )
)
