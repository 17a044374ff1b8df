"""Every workload, in the order in which they are run."""

from __future__ import annotations

from stateward.audit.workloads import (
    alarms,
    conflicts,
    documents,
    drill,
    exclusion,
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
    task_faults,
    tasks,
    turns,
    updates,
    versions,
    windows,
    workflow_faults,
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
        task_faults,
        locks,
        exclusion,
        updates,
        documents,
        conflicts,
        versions,
        lists,
        workflows,
        workflow_faults,
        load,
        more_replicas,
        history,
        outage,
        alarms,
        drill,
        growth,
    )
)
