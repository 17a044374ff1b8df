"""Every workload, in the order in which they are run."""

from __future__ import annotations

from stateward.audit.workloads import (
    alarms,
    conflicts,
    drill,
    fidelity,
    growth,
    history,
    keys,
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
    windows,
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
        fidelity,
        windows,
        keys,
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
