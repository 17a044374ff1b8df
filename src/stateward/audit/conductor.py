"""The conductor: which workloads are run, in which order, and what is cleared away afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from stateward import __version__
from stateward.audit import backups
from stateward.audit.buyer_metrics import firing, scraped
from stateward.audit.faults.choice import Faults
from stateward.audit.plurals import plural
from stateward.audit.record import Record
from stateward.audit.replicas.fleet import Fleet
from stateward.audit.safety import isolation
from stateward.audit.safety.probe import Probe, Stop
from stateward.audit.servers.server import OwnServer, own_server
from stateward.audit.stage import Sizes, Stage
from stateward.audit.targets import TargetAddress, frameworks
from stateward.audit.targets.choosing import choose, create, title, uses_server
from stateward.audit.targets.frameworks import sandbox
from stateward.audit.workloads import (
    alarms,
    crash,
    drill,
    growth,
    lists,
    load,
    outage,
    preferences,
    races,
    sessions,
    sharing,
    updates,
    workflows,
)
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

ALARM_SECONDS = 60.0
CLEARING = 30.0  # seconds that a store is given to let itself be cleaned
UNWATCHED = ("outage", "monitoring", "growth")  # the store is taken away, or a file measured


class Options(Struct, frozen=True):
    """What the user asked for."""

    target: str | None = None
    url: str | None = None
    namespace: str | None = None
    profile: str = "quick"
    sizes: Sizes = Sizes()
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


# name → the part that a target must provide
WORKLOADS = {
    "settings": "sizes",
    "sessions": "threads",
    "preferences": "users",
    "sharing": "threads",
    "turns": "threads",
    "tasks": "tasks",
    "locks": "locks",
    "updates": "users",
    "conflicts": "versions",
    "consistency": "threads",
    "workflows": "workflows",
    "load": "threads",
    "scaling": "threads",
    "history": "threads",
    "outage": "threads",
    "monitoring": "metrics",
    "backup": "threads",
    "growth": "threads",
}
WORDS = {
    "settings": "reading the settings",
    "sessions": "killing a process, then reading its conversations",
    "preferences": "killing a process, then reading its users",
    "sharing": "writing here, reading there",
    "turns": "racing replicas on one conversation",
    "tasks": "racing replicas on the same tasks",
    "locks": "pausing the holder of a lock",
    "updates": "updating one user from all sides",
    "conflicts": "forcing conflicts",
    "consistency": "recording a history for the checker",
    "workflows": "killing replicas in the middle of workflows",
    "load": "open-loop load",
    "scaling": "doubling the replicas under load",
    "history": "lengthening a conversation",
    "outage": "taking the store away",
    "monitoring": "looking at the metrics, waiting for the alarm",
    "backup": "backing up under load, restoring elsewhere",
    "growth": "measuring growth",
}


class Audit:
    """One audit from its first look to the last thing cleared away."""

    def __init__(self, options: Options, show: Callable[[str], None]) -> None:
        self.options = options
        self.show = show
        self.folder = tempfile.mkdtemp(prefix="stateward-audit-")
        namespace = options.namespace or f"{isolation.PREFIX}{uuid4().hex[:12]}"
        self._server: OwnServer | None = None
        try:
            if options.with_server is not None:
                self._server = own_server(options.with_server, options.server_settings)
            named, url = _named(options, self._server)
            self.place = choose(named, self.folder, namespace, url)
            if self._server is not None and not uses_server(self.place):
                raise InvalidInput(f"{options.target} uses no server: leave --with-server out")
            self.place = isolation.apart(self.place, options.namespace is None, options.observe)
            if options.observe and self.place.kind == "framework":
                raise InvalidInput(
                    "--observe reads what a store says of itself: name its URL instead of the "
                    "framework, e.g. stateward audit postgresql://… --observe"
                )
            self._made = self._file_is_new()
        except BaseException:
            shutil.rmtree(self.folder)
            if self._server is not None:
                self._server.remove()
            raise
        self._faults = self._choose_faults()
        target, said = _said(options, self.place)
        self.record = Record(
            target=target,
            title=said,
            profile=options.profile,
            seed=options.seed,
            command=options.command,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            declared=options.declared,
            environment=_environment(options),
        )
        if self.place.kind == "framework":
            self.record.environment |= frameworks.versions(self.place.name)
        self.sizes = options.sizes
        self._probe: Probe | None = None
        self._places = [self.place]
        self._roomed = False

    def _choose_faults(self) -> Faults:
        options = self.options
        return Faults(self.place, self._server, options.restart_command, options.faults)

    def _file_is_new(self) -> str | None:
        """The path of a file that exists only because of this audit."""
        if self.place.kind != "store":
            return None
        path = isolation.file_of(parse(self.place.name))
        return None if path is None or os.path.exists(path) else path

    async def run(self) -> Record:
        """Whatever happens, what was recorded is returned and what was written is removed."""
        began = time.monotonic()
        fleet = Fleet(self.place)
        noted = False
        try:
            if self._server is not None:
                self.show(f"starting {self.options.with_server}")
                await self._server.start()
            if self.place.kind == "framework":
                self._roomed = await sandbox.prepare(self.place)
            if self.place.kind == "store" and not self.options.observe:
                await isolation.begin(self.place.name, self.place.namespace)
                noted = True
                await self._fit(fleet)
            await self._watched(fleet)
        except asyncio.CancelledError:
            self.record.interrupted = True
        finally:
            self.show("removing what was written")
            await fleet.kill_all()
            if self._probe is not None:
                await self._probe.close()
            await self._faults.close()
            try:
                if self._server is None or self._server.is_running:
                    await self._clear(noted)
                else:
                    self._remove_files()
            finally:
                if self._server is not None:
                    self._server.remove()
            self.record.seconds = round(time.monotonic() - began, 1)
        return self.record

    async def _fit(self, fleet: Fleet) -> None:
        """Take no more than a fifth of the connections that the server has to spare."""
        self.sizes, name = await isolation.fitted(self.options.sizes, self.place.name)
        self.place = fleet.place = replace(self.place, name=name)
        self._faults = self._choose_faults()
        self.record.environment["replicas"] = self.sizes.replicas

    async def _watched(self, fleet: Fleet) -> None:
        """All workloads, while a probe looks whether they do harm."""
        if self.place.kind != "store" or self.options.observe:
            await self._all(fleet)
            return
        self._probe = Probe(self.place.name, self.options.stop)
        self.record.aborted = await self._probe.beside(self._all(fleet))
        self.record.interrupted = bool(self.record.aborted)

    async def _all(self, fleet: Fleet) -> None:
        (first,) = await fleet.start()
        provides = list(first.provides)
        if "sizes" in provides and not self.options.observe:
            isolation.refuse_full(await first.ask("growth:describe") or {})
        await fleet.end(first)
        self.record.provides = provides
        stage = Stage(fleet, self.sizes, self.options.seed, provides)
        wanted = self.options.workloads or tuple(WORKLOADS)
        self.record.skipped = [name for name in WORKLOADS if name not in wanted]
        for number, (name, part) in enumerate(WORKLOADS.items(), 1):
            if name not in wanted or (part not in provides and not self._asked_elsewhere(name)):
                continue
            prefix = f"{number:>2}/{len(WORKLOADS)} {WORDS[name]}"
            self.show(prefix)
            stage.say = lambda more, prefix=prefix: self.show(f"{prefix}: {more}")  # type: ignore[misc]
            if self.place.kind == "naive":
                # What one workload breaks for good must not hide what the next would find.
                await fleet.rest()
                fleet.place = replace(self.place, namespace=f"{self.place.namespace}-{name}")
                self._places.append(fleet.place)
            await self._one(stage, name)

    def _asked_elsewhere(self, name: str) -> bool:
        if name == "monitoring" and self.options.metrics_url is not None:
            self.record.provides.append("metrics")
            return True
        return False

    async def _one(self, stage: Stage, name: str) -> None:
        if self._probe is not None:
            await self._probe.refuse_harm()
        began = time.monotonic()
        away = self._probe.away() if self._probe and name in UNWATCHED else nullcontext()
        try:
            async with away:
                await self._conduct(stage, name)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A target may do anything: what one workload met must not end the others.
            self.record.problems[name] = self._without_urls(f"{type(error).__name__}: {error}")
            await stage.fleet.abandon()
        self.record.took[name] = time.monotonic() - began

    def _without_urls(self, text: str) -> str:
        """A target's own error may show how it was reached."""
        for url in (self.place.name, self.place.url, self.options.target, self.options.url):
            if url is not None and "://" in url:
                text = text.replace(url, parse(url).safe)
        return text[:500]

    async def _conduct(self, stage: Stage, name: str) -> None:
        record = self.record
        plain: dict[str, tuple[str, Callable[[Stage], Awaitable[Any]]]] = {
            "settings": ("settings", growth.settings),
            "sessions": ("sessions", sessions.conduct),
            "preferences": ("preferences", preferences.conduct),
            "sharing": ("sharing", sharing.conduct),
            "turns": ("turn_race", races.turns),
            "tasks": ("task_race", races.tasks),
            "locks": ("lock_race", races.locks),
            "updates": ("updates", updates.updates),
            "conflicts": ("conflicts", updates.conflicts),
            "consistency": ("steps", lists.conduct),
            "workflows": ("workflows", workflows.conduct),
            "load": ("levels", load.levels),
            "scaling": ("doubling", load.doubling),
            "history": ("lengths", load.lengths),
        }
        if name in plain:
            field, conduct = plain[name]
            setattr(record, field, await conduct(stage))
        elif name == "outage":
            await self._disturb(stage)
        elif name == "monitoring":
            await self._monitor(stage)
        elif name == "backup":
            await self._drill(stage)
        else:
            record.growing, costs = await growth.conduct(stage)
            record.costs = replace(costs, pool=self._pool(costs.max_connections))

    async def _disturb(self, stage: Stage) -> None:
        """Whatever can be done to the target's storage."""
        killing, found = await self._faults.crash(), []
        if killing is not None:
            found.append(await crash.conduct(stage, killing))
        faults = await self._faults.all()
        if faults:
            found += await outage.conduct(stage, faults, found[-1].end if found else 0.0)
        if found:
            self.record.outages = found
        elif self._faults.why_none:
            self.record.notes["outage"] = self._faults.why_none

    # --- questions with parts of the user's own -------------------------------------

    async def _monitor(self, stage: Stage) -> None:
        fault = await self._faults.alarming()
        if fault is None and self._faults.why_none:
            self.record.notes["monitoring"] = self._faults.why_none
        metrics, alerts = self.options.metrics_url, self.options.alerts_url
        self.record.monitoring = await alarms.conduct(
            stage,
            fault,
            None if metrics is None else lambda: asyncio.to_thread(scraped, metrics),
            None if alerts is None else lambda: asyncio.to_thread(firing, alerts),
            ALARM_SECONDS,
        )

    async def _drill(self, stage: Stage) -> None:
        how = self._procedure()
        if how is not None:
            self.record.drill = await drill.conduct(stage, *how)

    def _procedure(self) -> backups.Procedure | None:
        """How this target is backed up and restored; None: nobody has said."""
        options, place = self.options, self.place
        if options.backup_command and options.restore_command:
            return backups.by_commands(
                place, options.backup_command, options.restore_command, options.restored
            )
        if place.kind == "statefulset":
            return backups.of_division(place)
        if place.kind == "store" and "backup" in self.record.provides:
            return backups.of_store(place)
        return None

    def _pool(self, connections: int | None) -> int | None:
        if connections is not None and self.place.kind == "framework":
            return frameworks.POOL
        if connections is None or self.place.kind != "store":
            return None
        return isolation.pool_of(self.options.target)  # the audit's own may be smaller

    # --- clearing away --------------------------------------------------------------

    async def _clear(self, noted: bool) -> None:
        if self.place.kind in ("naive", "factory"):
            for place in self._places:
                target = create(place)
                await target.call("open")
                await target.call("clean")
                await target.call("close")
        if noted:
            left = await isolation.end_within(CLEARING, self.place.name, self.place.namespace)
            self.record.left = self._without_urls(left)
        if self._roomed:
            await sandbox.clear(self.place)
        self._remove_files()

    def _remove_files(self) -> None:
        if self._made is not None:
            isolation.remove_file(self._made)
        shutil.rmtree(self.folder)


def plan(options: Options) -> str:
    """What will be done, in words, before anything is."""
    sizes, wanted = options.sizes, options.workloads or tuple(WORKLOADS)
    load_seconds = sizes.duration * len(sizes.conversations)
    calls = sizes.rate * load_seconds if "load" in wanted else 0.0
    calls += sizes.replicas * (sizes.race_turns + sizes.updates + sizes.steps)
    calls += sizes.growth_turns + sizes.threads * sizes.turns
    megabytes = (sizes.growth_turns + calls * 0.3 + max(sizes.history)) * 0.6 / 1000
    connections = isolation.connections(sizes.replicas, isolation.pool_of(options.target))
    return (
        f"{plural(len(wanted), 'workload')} with up to {2 * sizes.replicas} replicas (processes), "
        f"{sizes.rate:g} calls/s for {load_seconds:g} s, about {calls:,.0f} calls and "
        f"{max(1, round(megabytes))} MB in all, up to {connections} connections, at most "
        "a fifth of those that are free; in a namespace of its own, which is removed afterwards"
    )


def _named(options: Options, server: OwnServer | None) -> tuple[str | None, str | None]:
    """The target and its URL: a server of the audit's own is the one or the other."""
    if server is None:
        return options.target, options.url
    if options.url is not None or "://" in (options.target or ""):
        raise InvalidInput("--with-server starts the server that is audited: leave the URL out")
    return (server.url, None) if options.target is None else (options.target, server.url)


def _said(options: Options, place: TargetAddress) -> tuple[str, str]:
    """The target for a report, and in words."""
    if options.with_server is not None:
        started = f"{options.with_server} (started by the audit)"
        said = started if options.target is None else f"{title(place)} on {started}"
        return said, said
    if options.target is None:
        return "sqlite (embedded)", "SQLite (embedded)"
    return _safe(place), title(place)


def _safe(place: TargetAddress) -> str:
    """The target without user, password and options."""
    if place.kind == "store":
        return parse(place.name).safe
    return title(place)


def _environment(options: Options) -> dict[str, Any]:
    node = hashlib.sha256(f"{platform.node()}/{platform.machine()}".encode()).hexdigest()[:12]
    return {
        "fingerprint": node,
        "machine": platform.machine(),
        "system": platform.system(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "stateward": __version__,
        "replicas": options.sizes.replicas,
        "rate": options.sizes.rate,
        "duration": options.sizes.duration,
    }
