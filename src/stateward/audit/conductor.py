"""The conductor: runs the workloads one after the other, and clears away what they wrote."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from stateward import __version__
from stateward.audit.buyer_metrics import firing_alerts, scrape
from stateward.audit.faults.choice import FaultChoice
from stateward.audit.options import AuditOptions
from stateward.audit.record import Record
from stateward.audit.replicas.fleet import Fleet
from stateward.audit.replicas.waits import ProcessorWaits
from stateward.audit.safety import headroom, isolation
from stateward.audit.safety.limits import CLEARING, INTERRUPTED, AbandonedThreads
from stateward.audit.safety.probe import Probe
from stateward.audit.servers.choice import own_server
from stateward.audit.servers.server import OwnServer
from stateward.audit.servers.service import Service
from stateward.audit.targets.choice import choose
from stateward.audit.targets.target import AuditTarget, BackupProcedure
from stateward.audit.workloads.catalogue import WORKLOADS
from stateward.audit.workloads.workload import Stage, Workload
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

# It would be judged by what the audit chose: that says nothing of the server used in production.
OWN_SETTINGS = "the server has the settings that the audit gave it, not those of your own"


class Audit:
    """One audit, from its first look at the target until everything is cleared away."""

    def __init__(self, options: AuditOptions, show: Callable[[str], None]) -> None:
        self.options = options
        self.show = show
        self.folder = tempfile.mkdtemp(prefix="stateward-audit-")
        self._server: OwnServer | None = None
        try:
            if options.with_server is not None:
                self._server = own_server(options.with_server, options.server_settings)
            elif options.start_command is not None:
                self._server = Service(options.start_command)
            self.target = self._choose()
        except BaseException:
            shutil.rmtree(self.folder)
            if self._server is not None:
                self._server.remove()
            raise
        self._faults = FaultChoice(
            self.target, self._server, options.restart_command, options.faults
        )
        target, title = _titles(options, self.target)
        self.record = Record(
            target=target,
            title=title,
            profile=options.profile,
            seed=options.seed,
            command=options.command,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            declared=options.declared,
            environment=_environment(options) | self.target.versions,
        )
        self._probe: Probe | None = None
        self._presence: isolation.Presence | None = None
        self._apart: list[AuditTarget] = []  # targets of single workloads

    def _choose(self) -> AuditTarget:
        """Return the target, apart from existing data; it may be a server of the audit's own."""
        options, server = self.options, self._server
        named, url = options.target, options.url
        if server is not None:
            keeps = options.start_command is not None and named is None  # it may say where
            if (url is not None and not keeps) or "://" in (named or ""):
                option = "--with-server" if options.with_server else "--start-command"
                raise InvalidInput(f"{option} starts the server that is audited: leave the URL out")
            named, url = (server.url, url) if named is None else (named, server.url)
        namespace = options.namespace or f"{isolation.PREFIX}{uuid4().hex[:12]}"
        target = choose(named, self.folder, namespace, url)
        if server is not None and not target.uses_server:
            raise InvalidInput(f"{options.target} uses no server: leave --with-server out")
        return target.apart(options.namespace is None, options.observe)

    async def run(self) -> Record:
        """Run the audit; its record is returned and its data removed, whatever happens."""
        began = time.monotonic()
        asyncio.get_running_loop().set_default_executor(AbandonedThreads())
        fleet = Fleet(self.target)
        prepared = False
        try:
            if self._server is not None:
                self.show(f"starting {self._server.kind}")
                await self._server.start()
            await self._recognise(fleet)
            await self.target.prepare()
            prepared = True
            if self.target.watched is not None:
                presence = isolation.Presence(self.target.watched, self.target.namespace)
                self._presence = await presence.begin()
            stage = await self._stage(fleet)
            if self.target.watched is None:
                await self._all(stage)
            else:
                self._probe = Probe(self.target.watched, self.options.stop)
                self.record.aborted = await self._probe.beside(self._all(stage))
                self.record.interrupted = bool(self.record.aborted)
        except asyncio.CancelledError:
            self.record.interrupted = True
        finally:
            self.show("removing what was written")
            await fleet.kill_all()
            if self._probe is not None:
                await self._probe.close()
            if self._presence is not None:
                await self._presence.end()
            await self._faults.close()
            try:
                own = self._server
                if prepared and (own is None or (own.is_running and not own.holds_all)):
                    await self._clear()
            finally:
                shutil.rmtree(self.folder)
                if self._server is not None:
                    self._server.remove()
            self.record.seconds = round(time.monotonic() - began, 1)
        return self.record

    async def _recognise(self, fleet: Fleet) -> None:
        """Ask the target what it really is, and keep that apart from existing data."""
        target = await self.target.recognised()
        if target is not self.target:
            options = self.options
            self.target = target.apart(options.namespace is None, options.observe)
            fleet.target = self._faults.target = self.target

    async def _stage(self, fleet: Fleet) -> Stage:
        """Return the stage of all workloads, fitted to the server's spare capacity."""
        options, pool = self.options, self.target.pool  # the audit's own may be smaller
        self.target, sizes = await self.target.fitted(options.sizes)
        fleet.target = self._faults.target = self.target
        self.record.environment["replicas"] = sizes.replicas
        if self.target.url is not None and "://" in self.target.url:
            self.record.environment["store"] = self.target.url.partition("://")[0]
        if options.with_server is not None:
            self.record.notes["settings"] = OWN_SETTINGS
        stage = Stage(fleet, sizes, self.record, self._faults)
        stage.pool, stage.backup, stage.tenant = pool, self._backup, self._tenant
        if self._server is not None:
            stage.server_files = self._server.search
            stage.open_transactions = self._server.open_transactions
        if options.metrics_url is not None:
            stage.scrape = partial(asyncio.to_thread, scrape, options.metrics_url)
        if options.alerts_url is not None:
            stage.alerts = partial(asyncio.to_thread, firing_alerts, options.alerts_url)
        return stage

    async def _all(self, stage: Stage) -> None:
        (first,) = await stage.fleet.start()
        provides = self.record.provides = list(first.provides)
        if stage.provides("sizes") and not self.options.observe:
            headroom.refuse_full(await first.call("describe") or {})
        await stage.fleet.end(first)
        if stage.scrape is not None and not stage.provides("metrics"):
            provides.append("metrics")
        wanted = self.options.workloads or [each.name for each in WORKLOADS]
        self.record.skipped = [each.name for each in WORKLOADS if each.name not in wanted]
        for number, workload in enumerate(WORKLOADS, 1):
            if workload.name not in wanted or not stage.provides(workload.needs):
                continue
            shown = f"{number:>2}/{len(WORKLOADS)} {workload.words}"
            self.show(shown)
            stage.say = lambda more, shown=shown: self.show(f"{shown}: {more}")  # type: ignore[misc]
            target = self.target.for_workload(workload.place)
            if target is not self.target:
                await stage.fleet.rest()
                stage.fleet.target = target
                if target not in self._apart:
                    self._apart.append(target)
            await self._one(stage, workload)
        await stage.fleet.rest()  # a store that is only looked at is let go of, not died on

    async def _one(self, stage: Stage, workload: Workload) -> None:
        if self._probe is not None:
            await self._probe.refuse_harm()
        began = time.monotonic()
        away = self._probe.away() if self._probe and workload.unwatched else nullcontext()
        async with away:
            await self._repeated(stage, workload)
        self.record.took[workload.name] = time.monotonic() - began

    async def _repeated(self, stage: Stage, workload: Workload) -> None:
        """Repeat a workload that failed in a way in which a busy machine fails, too."""
        repeats = stage.sizes.repeats
        while True:
            waits = ProcessorWaits(stage.fleet)
            await self._conducted(stage, workload)
            if not self._is_doubtful(workload) or not waits.is_busy:
                break
            if not repeats:
                self._set_aside(workload, f"this machine was too busy to measure: {waits}")
                break
            stage.say(f"again, since this machine was too busy: {waits}")
            repeats, stage.attempt = repeats - 1, stage.attempt + 1
        stage.attempt = 0

    async def _conducted(self, stage: Stage, workload: Workload) -> None:
        self.record.problems.pop(workload.name, None)
        try:
            await workload.conduct(stage)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A target may do anything: what one workload met must not end the others.
            problem = f"{type(error).__name__}: {error}"
            self.record.problems[workload.name] = self._without_urls(problem)
            await stage.fleet.abandon()

    def _is_doubtful(self, workload: Workload) -> bool:
        """Return True if the workload failed where a machine that is too busy fails as well."""
        checks = getattr(self.record, workload.checks, None) or () if workload.checks else ()
        failed = any(each.differing and each.promise in workload.timed for each in checks)
        return bool(workload.timed) and (failed or workload.name in self.record.problems)

    def _set_aside(self, workload: Workload, why: str) -> None:
        """Drop failures that this machine may have caused: then nothing is known."""
        self.record.problems.pop(workload.name, None)
        self.record.notes[workload.name] = why
        checks = getattr(self.record, workload.checks)
        if checks is not None:
            doubtful = [c for c in checks if c.differing and c.promise in workload.timed]
            setattr(self.record, workload.checks, [c for c in checks if c not in doubtful])

    def _without_urls(self, text: str) -> str:
        """Remove URLs from an error of the target, which may contain them."""
        for url in (self.target.name, self.target.url, self.options.target, self.options.url):
            if url is not None and "://" in url:
                text = text.replace(url, parse(url).safe)
        return text[:500]

    def _tenant(self) -> dict[str, Any] | None:
        """Return how the target of another tenant differs; its data is cleared in the end, too."""
        tenant = self.target.tenant() if self.options.namespace is None else None
        if tenant is None:
            return None
        self._apart.append(tenant)
        return {"namespace": tenant.namespace}

    def _backup(self) -> BackupProcedure | None:
        """Return how the target is backed up and restored; None if the user named no way."""
        saving, restoring = self.options.backup_command, self.options.restore_command
        if saving and restoring:
            return self.target.backup_by(saving, restoring, self.options.restored)
        return self.target.backup()

    async def _clear(self) -> None:
        seconds = INTERRUPTED if self.record.interrupted else CLEARING
        left = [await _cleared(target, seconds) for target in (self.target, *self._apart)]
        self.record.left = self._without_urls("; ".join(filter(None, left)))


async def _cleared(target: AuditTarget, seconds: float) -> str:
    """Clear a target; return what is left, since an error must not lose the findings."""
    try:
        async with asyncio.timeout(seconds):
            return await target.clear()
    except InvalidInput:  # the target cannot be had at all, so there is nothing to lose
        raise
    except Exception as error:
        return (
            f"what it wrote in {target.namespace!r} could not be removed, because the memory's own "
            f"cleaning {_failure(error, seconds)}; remove it by hand"
        )


def _failure(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"did not end within {seconds:g} s"
    return f"failed ({type(error).__name__}: {error})"


def _titles(options: AuditOptions, target: AuditTarget) -> tuple[str, str]:
    """Return the target's title for a report, and in words."""
    if options.with_server is not None or options.start_command is not None:
        started = f"{options.with_server or options.start_command} (started by the audit)"
        title = started if options.target is None else f"{target.title} on {started}"
        return title, title
    if options.target is None:
        return "sqlite (embedded)", "SQLite (embedded)"
    return target.title, target.title


def _environment(options: AuditOptions) -> dict[str, Any]:
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
