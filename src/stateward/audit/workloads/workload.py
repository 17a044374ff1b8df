"""A workload, and the stage that it gets: replicas, sizes, faults, and its own names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from stateward.audit.profiles import AuditSizes
from stateward.audit.record import Record, Tried
from stateward.audit.replicas.fleet import PATIENCE, Fleet, Replica
from stateward.audit.safety.isolation import PREFIX
from stateward.audit.targets.target import BackupProcedure

Looked = Callable[[], Awaitable[dict[str, Any]]]


class Workload(Struct, frozen=True):
    """One kind of work done to a target. Functions for replicas end the workload's file.

    `conduct` puts what it found into the record of its stage.
    """

    name: str
    needs: str  # the part that a target must provide
    words: str  # shown while it runs
    conduct: Callable[[Stage], Awaitable[None]]
    unwatched: bool = False  # the store is taken away, or a file measured
    checks: str = ""  # the field of its checks, of which some may fail on a machine that is busy:
    timed: tuple[str, ...] = ()  # these promises, whose trials are then repeated
    after: str = ""  # the workload whose writes it looks for: it works in the same place

    @property
    def place(self) -> str:
        """Return the place that is apart from other workloads, where a target separates them."""
        return self.after or self.name


class Disturbance(Protocol):
    """Something that can be done to a store, and undone."""

    label: str
    changed: dict[str, Any]  # changes of a replica's target
    every: float  # seconds between two tries
    least: float  # seconds that it lasts, at least

    async def begin(self, replica: Replica) -> None: ...
    async def end(self, replica: Replica) -> None: ...
    def fired(self, tried: Sequence[Tried]) -> bool: ...


class Crash(Protocol):
    """The end of a server, and its return."""

    label: str
    fired: bool  # True if the fault really happened

    async def strike(self) -> None: ...


class Disturbances(Protocol):
    """Disturbances of one target's storage."""

    why_none: str

    async def crash(self) -> Crash | None: ...
    async def all(self) -> Sequence[Disturbance]: ...
    async def away(self) -> Disturbance | None: ...
    async def alarming(self) -> Disturbance | None: ...


class ErasedPerson(NamedTuple):
    """Person who was erased, and is looked for in a backup made later."""

    user: str
    threads: list[str]


class Stage:
    """One audit in progress."""

    def __init__(
        self, fleet: Fleet, sizes: AuditSizes, record: Record, disturbances: Disturbances
    ) -> None:
        self.fleet = fleet
        self.sizes = sizes
        self.record = record
        self.disturbances = disturbances
        self.backup: Callable[[], BackupProcedure | None] = lambda: None
        self.tenant: Callable[[], dict[str, Any] | None] = lambda: None  # changes for another
        # Of some texts, which files of a server of the audit's own have each.
        self.server_files: Callable[[list[str]], Awaitable[list[list[str]]]] | None = None
        # Sessions of that server in a transaction, with their last statement.
        self.open_transactions: Callable[[], Awaitable[dict[int, str] | None]] | None = None
        self.pool: int | None = None  # connections that a replica may open
        self.scrape: Looked | None = None  # the buyer's own metrics
        self.alerts: Looked | None = None  # and those alerts that fire
        self.keepsakes: float | None = None  # when they were put away
        self.erased: list[ErasedPerson] = []
        self.attempt = 0  # of the workload; ids must be new in each
        self.say: Callable[[str], None] = lambda _: None

    def provides(self, part: str) -> bool:
        return part in self.record.provides

    @property
    def is_apart(self) -> bool:
        """True if no one else uses the namespace, so that any id may be used there."""
        return self.fleet.target.namespace.startswith(PREFIX)

    def names(self, what: str, count: int) -> list[str]:
        """Return ids that no other workload uses, and no one but an audit."""
        again = f"again-{self.attempt}-" if self.attempt else ""
        return [f"{PREFIX}{what}-{self.record.seed}-{again}{number}" for number in range(count)]

    async def at_once(
        self, replicas: list[Replica], do: str, *, patience: float = PATIENCE, **args: Any
    ) -> list[Any]:
        """Ask all replicas, each with its number `who`, to `begin` at one moment."""
        begin = time.monotonic() + 0.2
        return await asyncio.gather(
            *(
                replica.ask(do, who=who, begin=begin, patience=patience, **args)
                for who, replica in enumerate(replicas)
            )
        )


# --- in a replica -----------------------------------------------------------------------


async def until(begin: float) -> None:
    """Wait for that moment of the clock that all processes share."""
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
