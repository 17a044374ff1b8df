"""The conductor: which workloads are run, in which order, and what is cleared away afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from holdfast import __version__, backup
from holdfast.audit import safety
from holdfast.audit.faults.disk import DiskFull, Locked, can_fill
from holdfast.audit.faults.link import LABELS, LinkFault, Proxy, address, through
from holdfast.audit.fleet import Fleet
from holdfast.audit.history import Record
from holdfast.audit.plurals import plural
from holdfast.audit.probing import Probe, Stop
from holdfast.audit.scraping import firing, scraped
from holdfast.audit.stage import Sizes, Stage
from holdfast.audit.targets import Place
from holdfast.audit.targets.choosing import choose, create, file_url, title
from holdfast.audit.workloads import (
    drilling,
    growing,
    listing,
    load,
    monitoring,
    outage,
    preferences,
    racing,
    sessions,
    sharing,
    updating,
    workflows,
)
from holdfast.errors import InvalidInput
from holdfast.registry import parse

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
    observe: bool = False  # read settings and sizes, and write nothing
    stop: Stop = Stop()  # what ends an audit that does harm
    declared: dict[str, Any] = {}
    command: str = "holdfast audit"


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
        self.folder = tempfile.mkdtemp(prefix="holdfast-audit-")
        namespace = options.namespace or f"{safety.PREFIX}{uuid4().hex[:12]}"
        try:
            self.place = choose(options.target, self.folder, namespace, options.url)
            self.place = safety.apart(self.place, options.namespace is None, options.observe)
            self._made = self._file_is_new()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.record = Record(
            target=_safe(self.place) if options.target else "sqlite (embedded)",
            title=title(self.place) if options.target else "SQLite (embedded)",
            profile=options.profile,
            seed=options.seed,
            command=options.command,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            declared=options.declared,
            environment=_environment(options),
        )
        self.sizes = options.sizes
        self._probe: Probe | None = None
        self._proxy: Proxy | None = None
        self._places = [self.place]

    def _file_is_new(self) -> str | None:
        """The path of a file that exists only because of this audit."""
        if self.place.kind != "store":
            return None
        path = safety.file_of(parse(self.place.name))
        return None if path is None or os.path.exists(path) else path

    async def run(self) -> Record:
        """Whatever happens, what was recorded is returned and what was written is removed."""
        began = time.monotonic()
        fleet = Fleet(self.place)
        noted = False
        try:
            if self.place.kind == "store" and not self.options.observe:
                await safety.begin(self.place.name, self.place.namespace)
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
            await self._clear(noted)
            self.record.seconds = round(time.monotonic() - began, 1)
        return self.record

    async def _fit(self, fleet: Fleet) -> None:
        """Take no more than a fifth of the connections that the server has to spare."""
        self.sizes, name = await safety.fitted(self.options.sizes, self.place.name)
        self.place = fleet.place = replace(self.place, name=name)
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
            safety.refuse_full(await first.ask("growing:describe") or {})
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
        for url in (self.place.name, self.options.target, self.options.url):
            if url is not None and "://" in url:
                text = text.replace(url, parse(url).safe)
        return text[:500]

    async def _conduct(self, stage: Stage, name: str) -> None:
        record = self.record
        plain: dict[str, tuple[str, Callable[[Stage], Awaitable[Any]]]] = {
            "settings": ("settings", growing.settings),
            "sessions": ("sessions", sessions.conduct),
            "preferences": ("preferences", preferences.conduct),
            "sharing": ("sharing", sharing.conduct),
            "turns": ("turn_race", racing.turns),
            "tasks": ("task_race", racing.tasks),
            "locks": ("lock_race", racing.locks),
            "updates": ("updates", updating.updates),
            "conflicts": ("conflicts", updating.conflicts),
            "consistency": ("steps", listing.conduct),
            "workflows": ("workflows", workflows.conduct),
            "load": ("levels", load.levels),
            "scaling": ("doubling", load.doubling),
            "history": ("lengths", load.lengths),
        }
        if name in plain:
            field, conduct = plain[name]
            setattr(record, field, await conduct(stage))
        elif name == "outage":
            faults = await self._faults()
            if faults:
                record.outages = await outage.conduct(stage, faults)
        elif name == "monitoring":
            await self._monitor(stage)
        elif name == "backup":
            await self._drill(stage)
        else:
            record.growing, costs = await growing.conduct(stage)
            record.costs = replace(costs, pool=self._pool(costs.max_connections))

    # --- faults ---------------------------------------------------------------------

    async def _faults(self) -> list[Any]:
        """What can be done to this target's storage."""
        linked = await self._link()
        if linked is not None:
            proxy, changed = linked
            return [LinkFault(proxy, kind, changed) for kind in LABELS]
        found: list[Any] = []
        if can_fill() and self._on_files():
            found.append(self._full_disk())
        if self.place.kind == "store":
            path = safety.file_of(parse(self.place.name))
            if path is not None:
                found.append(Locked(path))
        return found

    async def _link(self) -> tuple[Proxy, dict[str, Any]] | None:
        """A proxy in front of the target's server, and what leads replicas through it."""
        field = "name" if self.place.kind == "store" else "url"
        url = getattr(self.place, field)
        where = None if url is None else address(url)
        if where is None:
            return None
        if self._proxy is None:
            self._proxy = Proxy(*where)
            await self._proxy.open()
        return self._proxy, {field: through(url, self._proxy.port)}

    def _full_disk(self) -> DiskFull:
        return DiskFull() if self.place.kind != "naive" else DiskFull(room=256)

    def _on_files(self) -> bool:
        if self.place.kind == "store":
            return safety.file_of(parse(self.place.name)) is not None
        return self.place.kind == "statefulset" or (
            self.place.kind == "naive" and self.place.name == "json-files"
        )

    # --- questions with parts of the user's own -------------------------------------

    async def _monitor(self, stage: Stage) -> None:
        linked = await self._link()
        fault: Any = None
        if linked is not None:
            fault = LinkFault(linked[0], "refuse", linked[1])
        elif can_fill() and self._on_files():
            fault = self._full_disk()
        metrics, alerts = self.options.metrics_url, self.options.alerts_url
        self.record.monitoring = await monitoring.conduct(
            stage,
            fault,
            None if metrics is None else lambda: asyncio.to_thread(scraped, metrics),
            None if alerts is None else lambda: asyncio.to_thread(firing, alerts),
            ALARM_SECONDS,
        )

    async def _drill(self, stage: Stage) -> None:
        options, place = self.options, self.place
        if options.backup_command and options.restore_command:
            await self._drill_by_command(stage)
        elif place.kind == "statefulset":
            await self._drill_division(stage)
        elif place.kind == "store" and "backup" in self.record.provides:
            file = os.path.join(self.folder, "drill.backup")
            restored = file_url(os.path.join(self.folder, "restored.db"))

            def save() -> str:
                return backup.backup(place.name, file, namespace=place.namespace).moment

            def put_back() -> dict[str, Any]:
                backup.restore(file, restored, namespace=place.namespace)
                return {"name": restored, "kind": "store"}

            self.record.drill = await drilling.conduct(stage, save, put_back, "holdfast backup")

    async def _drill_division(self, stage: Stage) -> None:
        """Each of the files by itself: there is no moment that they share."""
        names = [f"agents-{number}.db" for number in range(int(self.place.name))]
        restored = os.path.join(self.folder, "restored")
        os.makedirs(restored)
        namespace = self.place.namespace

        def save() -> str:
            for name in names:
                path = os.path.join(self.folder, name)
                backup.backup(file_url(path), f"{path}.backup", namespace=namespace)
            return "entity"

        def put_back() -> dict[str, Any]:
            for name in names:
                copy = file_url(os.path.join(restored, name))
                file = os.path.join(self.folder, f"{name}.backup")
                backup.restore(file, copy, namespace=namespace)
            return {"folder": restored}

        self.record.drill = await drilling.conduct(stage, save, put_back, "holdfast backup")

    async def _drill_by_command(self, stage: Stage) -> None:
        options, field = self.options, "name" if self.place.kind == "store" else "url"
        if options.restored is None:
            raise InvalidInput("--restored says where --restore-command puts the copy: a URL")

        def save() -> str:
            _shell(options.backup_command or "", self.place)
            return "entity"

        def put_back() -> dict[str, Any]:
            _shell(options.restore_command or "", self.place)
            return {field: _restored(options.restored or "", self.place)}

        said = "your own commands"
        self.record.drill = await drilling.conduct(stage, save, put_back, said)

    def _pool(self, connections: int | None) -> int | None:
        if connections is None or self.place.kind != "store":
            return None
        return safety.pool_of(self.options.target)  # the audit's own may be smaller

    # --- clearing away --------------------------------------------------------------

    async def _clear(self, noted: bool) -> None:
        if self._proxy is not None:
            await self._proxy.close()
        if self.place.kind in ("naive", "factory"):
            for place in self._places:
                target = create(place)
                await target.call("open")
                await target.call("clean")
                await target.call("close")
        if noted:
            left = await safety.end_within(CLEARING, self.place.name, self.place.namespace)
            self.record.left = self._without_urls(left)
        self._remove_files()

    def _remove_files(self) -> None:
        for end in ("", "-wal", "-shm") if self._made is not None else ():
            if os.path.exists(f"{self._made}{end}"):
                os.remove(f"{self._made}{end}")
        shutil.rmtree(self.folder)


def plan(options: Options) -> str:
    """What will be done, in words, before anything is."""
    sizes, wanted = options.sizes, options.workloads or tuple(WORKLOADS)
    load_seconds = sizes.duration * len(sizes.conversations)
    calls = sizes.rate * load_seconds if "load" in wanted else 0.0
    calls += sizes.replicas * (sizes.race_turns + sizes.updates + sizes.steps)
    calls += sizes.growth_turns + sizes.threads * sizes.turns
    megabytes = (sizes.growth_turns + calls * 0.3 + max(sizes.history)) * 0.6 / 1000
    connections = safety.connections(sizes.replicas, safety.pool_of(options.target))
    return (
        f"{plural(len(wanted), 'workload')} with up to {2 * sizes.replicas} replicas (processes), "
        f"{sizes.rate:g} calls/s for {load_seconds:g} s, about {calls:,.0f} calls and "
        f"{max(1, round(megabytes))} MB in all, up to {connections} connections, at most "
        "a fifth of those that are free; in a namespace of its own, which is removed afterwards"
    )


def _restored(url: str, place: Place) -> str:
    """A copy of the database has the audit's schema too, unless the URL names another."""
    if "://" not in place.name or not safety.is_apart(place.name) or "schema" in parse(url).options:
        return url
    return safety.with_options(url, schema=parse(place.name).options["schema"])


def _shell(command: str, place: Place) -> None:
    told = {"HOLDFAST_AUDIT_NAMESPACE": place.namespace}
    if place.kind == "store" and safety.is_apart(place.name):
        told["HOLDFAST_AUDIT_SCHEMA"] = parse(place.name).options["schema"]
    ran = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | told,
        check=False,
    )
    if ran.returncode:
        raise InvalidInput(f"{shlex.split(command)[0]} failed: {ran.stderr.strip()[-300:]}")


def _safe(place: Place) -> str:
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
        "holdfast": __version__,
        "replicas": options.sizes.replicas,
        "rate": options.sizes.rate,
        "duration": options.sizes.duration,
    }
