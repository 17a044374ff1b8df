"""A target: what is audited, as the conductor knows it and as it tells every replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from msgspec import Struct

from stateward.audit.faults.route import Route, plain_route
from stateward.audit.profiles import AuditSizes
from stateward.audit.safety.command import shell
from stateward.audit.targets.memory import Memory
from stateward.errors import InvalidInput


class BackupProcedure(NamedTuple):
    """Procedure to back up and restore a target. Both functions block.

    `save` returns what the backup shows at one moment ("store": all of it; "entity": each by
    itself); `put_back` returns where the copy is.
    """

    save: Callable[[], str]
    put_back: Callable[[], dict[str, Any]]
    by: str = "stateward backup"


class FileStorage(NamedTuple):
    """State in files of this machine: what a disk can do to it."""

    path: str | None = None  # path of the one file that can be locked
    small: bool = False  # many files, of which none grows much
    own: bool = True  # no one but the audit uses it


class AuditTarget(Struct, frozen=True, tag=True):
    """One target. Each kind of target is a subclass that overrides these methods."""

    name: str  # a URL, "process-dict", "module:factory"
    namespace: str
    folder: str  # a folder of the audit's own
    replica: int = 0
    url: str | None = None  # for those that need one beside their name
    routes: dict[str, int] = {}  # "host:port" → the port of this machine that leads there
    observed: bool = False  # True: the target is only looked at

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        """The target of this name; None if it names another kind.

        Raises `InvalidInput` if it cannot be audited as the user said.
        """
        raise NotImplementedError

    async def recognised(self) -> AuditTarget:
        """Return this target, or the one that it turns out to be when asked."""
        return self

    def connect(self) -> Any:
        """Return the target's memory in this process, which connects when it is opened."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The target in words, without credentials."""
        return self.name

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the audited packages."""
        return {}

    # --- its storage ----------------------------------------------------------------

    @property
    def uses_server(self) -> bool:
        """Return True if the target stores its data in a server that its URL names."""
        return True

    @property
    def files(self) -> FileStorage | None:
        """Storage in files; None if the target does not store into files."""
        return None

    @property
    def may_keep_files(self) -> bool:
        """Return True if the target may store into files, of which nothing more is known."""
        return False

    async def route(self) -> Route | str:
        """Return how to put a proxy before the target's servers, or why that cannot be done."""
        return plain_route(self.url)

    @property
    def pool(self) -> int | None:
        """Connections that a replica may open; None if no one knows."""
        return None

    # --- what is done before and after ----------------------------------------------

    def apart(self, own: bool, observing: bool) -> Self:
        """Return the target apart from existing data. `own`: the namespace is the audit's own."""
        return self

    def for_workload(self, place: str) -> Self:
        """Return this target, or one for the workloads of this place alone."""
        return self

    def tenant(self) -> Self | None:
        """Return the target of another tenant; None if that tenant could be a real one."""
        return None

    async def prepare(self) -> None:
        """Make room for it; raises, and has made nothing, if someone's data is there."""

    async def fitted(self, sizes: AuditSizes) -> tuple[Self, AuditSizes]:
        """Return the target and sizes that take only a part of its server's spare connections."""
        return self, sizes

    @property
    def watched(self) -> str | None:
        """The URL of a store that is watched all the while, so that the audit does no harm."""
        return None

    async def clear(self) -> str:
        """Remove all that was written, once it is prepared; what is left, in words."""
        return ""

    # --- backups --------------------------------------------------------------------

    def backup(self) -> BackupProcedure | None:
        """Return how the target is backed up; None if no one has said."""
        return None

    def backup_by(self, saving: str, restoring: str, copy: str | None) -> BackupProcedure:
        """Return a backup by the user's own commands, which put the copy at the URL `copy`."""
        if copy is None:
            raise InvalidInput("--restored says where --restore-command puts the copy: a URL")

        def save() -> str:
            shell(saving, self.told)
            return "entity"

        def put_back() -> dict[str, Any]:
            shell(restoring, self.told)
            return self.restored_at(copy)

        return BackupProcedure(save, put_back, "your own commands")

    @property
    def told(self) -> dict[str, str]:
        """The environment of the user's own commands."""
        return {"STATEWARD_AUDIT_NAMESPACE": self.namespace}

    def restored_at(self, url: str) -> dict[str, Any]:
        """Return how a copy of the target at this URL differs."""
        return {"url": url}


async def cleaned(target: AuditTarget) -> str:
    """Clear the target by its memory's own `clean`."""
    memory = Memory(target.connect())
    for method in ("open", "clean", "close"):
        await memory.call(method)
    return ""
