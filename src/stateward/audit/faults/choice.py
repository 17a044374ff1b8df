"""Which faults a target can be given."""

from __future__ import annotations

from functools import partial
from typing import Any

from stateward.audit.faults.crash import Killed, Restarted
from stateward.audit.faults.disk import DiskFull, Locked, can_fill
from stateward.audit.faults.link import LABELS, LinkFault, Proxy
from stateward.audit.faults.route import way_to
from stateward.audit.safety import isolation
from stateward.audit.safety.command import shell
from stateward.audit.servers.server import OwnServer
from stateward.audit.targets import TargetAddress
from stateward.audit.targets.frameworks import sandbox
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

NAMES = ("crash", *LABELS, "full", "locked")


def named(text: str | None) -> tuple[str, ...]:
    """What `--faults` says; none means all."""
    names = () if text is None else tuple(text.split(","))
    for name in names:
        if name not in NAMES:
            raise InvalidInput(f"no fault {name!r}; there are: {', '.join(NAMES)}")
    return names


class Faults:
    """What can be done to one target's storage, and the proxy that it takes."""

    def __init__(
        self,
        place: TargetAddress,
        server: OwnServer | None = None,
        restart_command: str | None = None,
        only: tuple[str, ...] = (),
    ) -> None:
        self.why_none = ""  # why nothing can be done to the way to the server
        self._place = place
        self._server = server
        self._command = restart_command
        self._only = only or NAMES
        self._proxy: Proxy | None = None
        self._changed: dict[str, Any] = {}

    async def crash(self) -> Killed | Restarted | None:
        """The end of the server and its return."""
        if "crash" not in self._only:
            return None
        if self._server is not None:
            return Killed(self._server)
        if self._command is None:
            return None
        way = await way_to(self._place)
        if isinstance(way, str):
            raise InvalidInput(f"--restart-command cannot be used here: {way}")
        command = partial(shell, self._command, self._place)
        return Restarted(command, way.addresses)

    async def all(self) -> list[Any]:
        """Everything else."""
        found: list[Any] = []
        if self._is_on_files():
            if can_fill() and "full" in self._only:
                found.append(self._full_disk())
            path = self._file()
            if path is not None and "locked" in self._only:
                found.append(Locked(path))
            return found
        proxy = await self._linked()
        if proxy is None:
            return []
        return [LinkFault(proxy, kind, self._changed) for kind in LABELS if kind in self._only]

    async def alarming(self) -> Any:
        """The one that should raise an alarm; None if there is none."""
        if self._is_on_files():
            return self._full_disk() if can_fill() else None
        proxy = await self._linked()
        return None if proxy is None else LinkFault(proxy, "refuse", self._changed)

    async def close(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()

    async def _linked(self) -> Proxy | None:
        """A proxy before the target's servers."""
        if self._proxy is None:
            way = await way_to(self._place)
            if isinstance(way, str):
                self.why_none = way
                return None
            self._proxy = Proxy(way.addresses)
            await self._proxy.open()
            self._changed = way.change(self._proxy.ports)
        return self._proxy

    def _full_disk(self) -> DiskFull:
        small = self._place.kind == "naive" or sandbox.is_folder(self._place)
        return DiskFull(room=256) if small else DiskFull()

    def _file(self) -> str | None:
        """The path of a target that is one file."""
        if self._place.kind == "store":
            return isolation.file_of(parse(self._place.name))
        return sandbox.file_of(self._place)

    def _is_on_files(self) -> bool:
        place = self._place
        if place.kind == "naive":
            return place.name == "json-files"
        if place.kind == "statefulset" or sandbox.is_folder(place):
            return True
        return self._file() is not None
