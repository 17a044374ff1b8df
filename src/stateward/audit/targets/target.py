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
    """How it is backed up and restored. Both block.

    `save` tells whether it shows one moment; `put_back` tells where the copy is.
    """

    save: Callable[[], str]
    put_back: Callable[[], dict[str, Any]]
    by: str = "stateward backup"


class FileStorage(NamedTuple):
    """State in files of this machine: what a disk can do to it."""

    path: str | None = None  # of the one file that can be locked
    small: bool = False  # many files, of which none grows much
    own: bool = True  # no one but the audit uses it


class AuditTarget(Struct, frozen=True, tag=True):
    """One target. Its kind is a subclass, which says what differs from the following."""

    name: str  # a URL, "process-dict", "module:factory"
    namespace: str
    folder: str  # a folder of the audit's own
    replica: int = 0
    url: str | None = None  # for those that need one beside their name
    routes: dict[str, int] = {}  # "host:port" → the port of this machine that leads there
    observed: bool = False  # it is only looked at

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        """The target of this name; None if it names another kind.

        Raises `InvalidInput` if it cannot be audited as the user said.
        """
        raise NotImplementedError

    async def recognised(self) -> AuditTarget:
        """Itself, or what it turns out to be when it is asked."""
        return self

    def connect(self) -> Any:
        """Its memory in this process, which connects when it is opened."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The target in words, without credentials."""
        return self.name

    @property
    def versions(self) -> dict[str, str]:
        """Of the packages that are audited."""
        return {}

    # --- its storage ----------------------------------------------------------------

    @property
    def uses_server(self) -> bool:
        """Whether what it stores is in a server that its URL names."""
        return True

    @property
    def files(self) -> FileStorage | None:
        """None if it does not store into files."""
        return None

    async def route(self) -> Route | str:
        """How to put a proxy before its servers; or why that cannot be done."""
        return plain_route(self.url)

    @property
    def pool(self) -> int | None:
        """Connections that a replica may open; None if no one knows."""
        return None

    # --- what is done before and after ----------------------------------------------

    def apart(self, own: bool, observing: bool) -> Self:
        """The same, apart from what is there. `own`: the namespace is the audit's own."""
        return self

    def for_workload(self, place: str) -> Self:
        """The same, or one for the workloads of this place alone."""
        return self

    def tenant(self) -> Self | None:
        """The same for someone else; None if whoever that is would be someone's."""
        return None

    async def prepare(self) -> None:
        """Make room for it; raises, and has made nothing, if someone's data is there."""

    async def fitted(self, sizes: AuditSizes) -> tuple[Self, AuditSizes]:
        """Itself and sizes that take no more than a part of what its server has to spare."""
        return self, sizes

    @property
    def watched(self) -> str | None:
        """The URL of a store that is looked at all the while, lest the audit do harm."""
        return None

    async def clear(self) -> str:
        """Remove all that was written, once it is prepared; what is left, in words."""
        return ""

    # --- backups --------------------------------------------------------------------

    def backup(self) -> BackupProcedure | None:
        """How it is backed up; None: no one has said."""
        return None

    def backup_by(self, saving: str, restoring: str, copy: str | None) -> BackupProcedure:
        """By commands of the user's own, which put the copy there."""
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
        """What differs in a copy of it that this URL names."""
        return {"url": url}


async def cleaned(target: AuditTarget) -> str:
    """Cleared by its memory's own `clean`."""
    memory = Memory(target.connect())
    for method in ("open", "clean", "close"):
        await memory.call(method)
    return ""
