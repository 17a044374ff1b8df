"""Choice of the faults that a target can be given."""

from __future__ import annotations

from functools import partial
from typing import Any

from stateward.audit.faults.crash import Killed, Restarted
from stateward.audit.faults.disk import DiskFull, Locked, can_fill
from stateward.audit.faults.link import LABELS, LinkFault, Proxy
from stateward.audit.safety.command import shell
from stateward.audit.servers.server import OwnServer
from stateward.audit.targets.target import AuditTarget
from stateward.errors import InvalidInput

NAMES = ("crash", *LABELS, "full", "locked")


def named(text: str | None) -> tuple[str, ...]:
    """Return the faults that `--faults` names; none means all."""
    names = () if text is None else tuple(text.split(","))
    for name in names:
        if name not in NAMES:
            raise InvalidInput(f"no fault {name!r}; use one of: {', '.join(NAMES)}")
    return names


class FaultChoice:
    """Disturbances of one target's storage, and the proxy that they need."""

    def __init__(
        self,
        target: AuditTarget,
        server: OwnServer | None = None,
        restart_command: str | None = None,
        only: tuple[str, ...] = (),
    ) -> None:
        self.why_none = ""  # why nothing can be done to the way to the server
        self.target = target
        self._server = server
        self._command = restart_command
        self._only = only or NAMES
        self._may_lock = "locked" in only  # also a file in use by others
        self._proxy: Proxy | None = None
        self._proxies: list[Proxy] = []
        self._changed: dict[str, Any] = {}

    async def crash(self) -> Killed | Restarted | None:
        """Return the fault that ends the server and starts it again."""
        if "crash" not in self._only:
            return None
        if self._server is not None:
            return Killed(self._server)
        if self._command is None:
            return None
        route = await self.target.route()
        if isinstance(route, str):
            raise InvalidInput(f"--restart-command cannot be used here: {route}")
        command = partial(shell, self._command, self.target.told)
        return Restarted(command, route.addresses)

    async def all(self) -> list[Any]:
        """Return all faults except crashes."""
        faults: list[Any] = []
        files = self.target.files
        if files is not None:
            if can_fill() and "full" in self._only:
                faults.append(DiskFull(files.small))
            lockable = files.own or self._may_lock
            if files.path is not None and lockable and "locked" in self._only:
                faults.append(Locked(files.path))
            return faults
        for kind in LABELS:
            if kind not in self._only:
                continue
            led = await self._way()
            if led is None:  # what keeps files need no URL for this one
                full = self.target.may_keep_files and can_fill() and "full" in self._only
                return [DiskFull(small=True)] if full else []
            faults.append(
                LinkFault(led[0], kind, led[1])
            )  # each its own, so that all can run at the same time
        return faults

    async def away(self) -> Any:
        """A fault that keeps the store away while a replica is killed; None if there is none."""
        files = self.target.files
        if files is not None:
            lockable = (files.own or self._may_lock) and "locked" in self._only
            return Locked(files.path) if files.path is not None and lockable else None
        led = await self._way() if "refuse" in self._only else None
        return None if led is None else LinkFault(led[0], "refuse", led[1])

    async def alarming(self) -> Any:
        """Return the fault that should raise an alarm; None if there is none."""
        files = self.target.files
        if files is not None:
            return DiskFull(files.small) if can_fill() else None
        proxy = await self._linked()
        return None if proxy is None else LinkFault(proxy, "refuse", self._changed)

    async def close(self) -> None:
        for proxy in self._proxies:
            await proxy.close()

    async def _linked(self) -> Proxy | None:
        """Return a proxy before the target's servers."""
        if self._proxy is None:
            led = await self._way()
            if led is None:
                return None
            self._proxy, self._changed = led
        return self._proxy

    async def _way(self) -> tuple[Proxy, dict[str, Any]] | None:
        """Return a new proxy, and the changes for a replica's target that goes through it."""
        route = await self.target.route()
        if isinstance(route, str):
            self.why_none = route
            return None
        proxy = Proxy(route.addresses)
        self._proxies.append(proxy)
        await proxy.open()
        return proxy, route.change(proxy.ports)
