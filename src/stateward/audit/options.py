"""Options of an audit, and the plan that follows from them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stateward.audit.profiles import AuditSizes
from stateward.audit.safety import headroom, isolation
from stateward.audit.safety.probe import Stop
from stateward.audit.workloads.catalogue import WORKLOADS
from stateward.engines.registry import parse
from stateward.pages.words import plural


class AuditOptions(Struct, frozen=True):
    """Options that the user gave."""

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
    start_command: str | None = None  # start a service of the user's own, and audit it
    restart_command: str | None = None  # ends and starts a server that is not the audit's
    faults: tuple[str, ...] = ()  # none: all
    observe: bool = False  # read settings and sizes, and write nothing
    stop: Stop = Stop()  # limits that end an audit that does harm
    declared: dict[str, Any] = {}
    command: str = "stateward audit"


def plan(options: AuditOptions) -> str:
    """Describe what the audit will do, before it does anything."""
    sizes, names = options.sizes, options.workloads or tuple(each.name for each in WORKLOADS)
    load_seconds = sizes.duration * len(sizes.conversations)
    calls = sizes.rate * load_seconds if "load" in names else 0.0
    calls += sizes.replicas * (sizes.race_turns + sizes.updates + sizes.steps)
    calls += sizes.growth_turns + sizes.threads * sizes.turns
    megabytes = (sizes.growth_turns + calls * 0.3 + max(sizes.history)) * 0.6 / 1000
    connections = headroom.connections(sizes.replicas, headroom.pool_of(options.target))
    return (
        f"{plural(len(names), 'workload')} with up to {2 * sizes.replicas} replicas (processes), "
        f"{sizes.rate:g} calls/s for {load_seconds:g} s, about {calls:,.0f} calls and "
        f"{max(1, round(megabytes))} MB in all, up to {connections} connections, at most "
        f"a fifth of those that are free; {_where(options)}{_disturbances(options)}"
    )


def _where(options: AuditOptions) -> str:
    """Describe which part of the store is the audit's own."""
    if options.namespace is not None:
        return f"in the namespace {options.namespace!r}, of which only what it wrote is removed"
    url = options.target or ""
    own = "namespace"
    is_store = "://" in url and not url.startswith(("http://", "https://"))
    if is_store and isolation.capabilities(url).schemas:
        own = "schema"
    elif is_store and isolation.file_of(parse(url)) is not None:
        return "in a separate file beside it, which is removed afterwards"
    return f"in a separate {own}, which is removed afterwards"


def _disturbances(options: AuditOptions) -> str:
    """Describe what other users of the store will notice; only the audit's connections are cut."""
    effects, url = "", options.target or ""
    if options.restart_command is not None:
        effects += "; the server is restarted, for all who use it"
    locks = "locked" in options.faults and options.namespace is not None and "://" in url
    if locks and isolation.file_of(parse(url)) is not None:
        effects += f"; the file is locked for {options.sizes.outage:g} s: other writers wait"
    return effects
