"""What the user asked for, and what that comes to."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stateward.audit.plurals import plural
from stateward.audit.profiles import AuditSizes
from stateward.audit.safety import headroom
from stateward.audit.safety.probe import Stop
from stateward.audit.workloads.catalogue import WORKLOADS


class AuditOptions(Struct, frozen=True):
    """What the user asked for."""

    target: str | None = None
    url: str | None = None
    namespace: str | None = None
    profile: str = "quick"
    sizes: AuditSizes = AuditSizes()
    seed: int = 1
    workloads: tuple[str, ...] = ()  # none: all
    backup_command: str | None = None
    restore_command: str | None = None
    restored: str | None = None
    metrics_url: str | None = None
    alerts_url: str | None = None
    with_server: str | None = None  # start one of this kind, and audit it
    server_settings: dict[str, str] = {}
    restart_command: str | None = None  # ends and starts a server that is not the audit's
    faults: tuple[str, ...] = ()  # none: all
    observe: bool = False  # read settings and sizes, and write nothing
    stop: Stop = Stop()  # what ends an audit that does harm
    declared: dict[str, Any] = {}
    command: str = "stateward audit"


def plan(options: AuditOptions) -> str:
    """What will be done, in words, before anything is."""
    sizes, wanted = options.sizes, options.workloads or tuple(each.name for each in WORKLOADS)
    load_seconds = sizes.duration * len(sizes.conversations)
    calls = sizes.rate * load_seconds if "load" in wanted else 0.0
    calls += sizes.replicas * (sizes.race_turns + sizes.updates + sizes.steps)
    calls += sizes.growth_turns + sizes.threads * sizes.turns
    megabytes = (sizes.growth_turns + calls * 0.3 + max(sizes.history)) * 0.6 / 1000
    connections = headroom.connections(sizes.replicas, headroom.pool_of(options.target))
    return (
        f"{plural(len(wanted), 'workload')} with up to {2 * sizes.replicas} replicas (processes), "
        f"{sizes.rate:g} calls/s for {load_seconds:g} s, about {calls:,.0f} calls and "
        f"{max(1, round(megabytes))} MB in all, up to {connections} connections, at most "
        "a fifth of those that are free; in a namespace of its own, which is removed afterwards"
    )
