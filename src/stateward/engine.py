"""The contract between Stateward and a store. These docstrings are law.

An engine executes a batch of operations (`ops.py`) in one round trip. Everything else in
Stateward is a layer over that one method. `stateward.testing.conformance` proves an engine.

The rules every engine keeps:

1.  **Durable when answered.** A commit is atomic, and durable to the declared level
    (`Description.durability`) before its outcome is returned.
2.  **A batch is not a transaction.** It holds at most one commit an entity; otherwise its
    operations are concurrent. What needs order goes into one commit.
3.  **Refusals are outcomes, never exceptions**: `Conflict`, `Duplicate`, `KeyReused`, `Held`,
    `Fenced`, `NotYours`, with the current values, and with nothing written. An exception
    means that the engine failed; `StoreUnavailable.applied` says whether any of the batch was
    applied: "no" or "unknown".
4.  **A lost reply is survivable.** An entity remembers the ops it applied, with their
    outcomes: at least the last `OPS_KEPT`, all of the last `OPS_SECONDS` up to `OPS_MOST`, and all
    of the last `CALL_SECONDS`, however many: a call may be tried again for as long as it lives.
    A caller's key is remembered longer: `KEY_SECONDS` or the last `KEYS_KEPT` entries of
    the log, whichever is fewer.
5.  **The order of checks** is fixed, the first hit answers: owner → `NotYours`; known op or
    key → `Duplicate` (or `KeyReused`); `Fence` → `Fenced`; `Unheld` → `Held`; then the other
    checks in the order given → `Conflict`; then the lease writes → `Held` or `Fenced`. Only
    applied commits are remembered.
6.  **Versions and stamps.** A log's version is the number of entries ever appended, a
    document's the number of times it was put since it was last missing. Every version has
    a stamp, the op that made it, so that an erased and recreated history, a restore or
    a failover that rewound is noticed even where the numbers agree.
7.  **One clock: the engine's.** Order comes from numbers the engine assigns, expiry from its
    own clock, never from a caller's. An entity whose time has come does not exist for any
    operation; what it held is removed physically `GRACE` seconds later. Appending to one,
    or to a dropped one, starts a new life: version 0, no documents, no keys. Appending,
    acquiring or renewing the lease, and setting `retain` restart the retention; nothing
    expires in the hands of whoever holds its lease.
8.  **Leases.** A new token is `max(last + 1, clock in µs)`: it only grows, even over lost
    state. A lease is live while `granted <= now < until`: a clock stepped back must not block
    for an hour. A fence compares token and nonce; an expired lease that no one took over still
    fences for its holder.
9.  **A cancelled caller disturbs no one.** `execute` may be cancelled at any await: a batch
    handed over completes all the same, and no later caller ever sees its replies.
10. **Values are opaque JSON text**, returned byte for byte. Ids, names, keys and statuses
    are data, never syntax: they may hold any character, NUL included.
11. **What can be read can be put back.** `Log.whole` reads an entity with all that counts, and
    `Restore` makes it so again, in any engine: the same answers to the same questions, keys, stamps
    and cursors included. Only the remembered ops stay behind, and leases are no one's.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from stateward.ops import Entity, Op, Outcome

GRACE = 86_400.0  # seconds a gone entity's head outlives it, so that late callers meet it
OPS_KEPT = 64
OPS_SECONDS = 600.0
OPS_MOST = 1024
MINUTE = 60.0  # what a listing of recent ones is ordered by: so rarely does its index change
OVERLAP = 10  # minutes: no commit enters that index later than so long after its time
CALL_SECONDS = 120.0  # longer than a call lives
KEY_SECONDS = 7 * 86_400.0
KEYS_KEPT = 100_000


class Capabilities(Struct, frozen=True):
    """How an engine differs from the others, as data. Code asks this, never the name."""

    durable: bool  # an acknowledged commit survives the process
    shared: bool  # several processes may use the same store concurrently
    inline_reads: bool = False  # reads answer without waiting: coalescing them gains nothing
    native_notify: bool = False  # `wait` is woken by the store, not by polling it
    atomic_listing: bool = True  # a listing by owner never misses an existing entity
    parallel_batches: int = 1  # batches worth having in flight at the same time
    batch: int = 256  # most operations worth sending in one batch
    parallel_reads: int = 0  # the same of batches that only read, where they are to be smaller
    read_batch: int = 0
    page: int = 200  # most entries worth reading in one fetch
    networked: bool = False  # a server that all replicas reach, not a file or memory of one
    snapshots: bool = False  # `snapshot` shows one moment of the whole store
    purges: bool = False  # `purge` removes a namespace immediately, and leaves no marks
    parts: bool = False  # some of it may fail while the rest answers: see `Parted`
    migrates: bool = (
        False  # its URL takes `migrate=off`: then it makes and changes nothing by itself
    )
    schemas: bool = False  # whole stores can be kept apart in one database: see `Schemas`
    system: str = ""  # the store's name in metrics, e.g. "postgresql"; nothing else asks for it


class Description(Struct, frozen=True):
    """What a store says of itself: shown to people, read by the audit."""

    engine: str
    version: str
    schema: int
    durability: str  # one sentence: what survives which failure
    bytes: int | None = None
    settings: Mapping[str, Any] = {}
    rows: int | None = None  # entities, entries and documents, as cheaply estimated
    capacity: int | None = None  # bytes it can grow to
    parts: Mapping[str, Description] = {}  # of a layered store, by what lives there


def summed(parts: Mapping[str, Any]) -> Description:
    """What descriptions, or the health of stores that are well, say together."""
    sizes = [of.bytes for of in parts.values()]
    return Description(
        engine=" + ".join(of.engine for of in parts.values()),
        version=" + ".join(of.version for of in parts.values()),
        schema=min(of.schema for of in parts.values()),
        durability="; ".join(f"{name}: {of.durability}" for name, of in parts.items()),
        bytes=None if None in sizes else sum(sizes),
    )


class Reader(Protocol):
    """What fetches and lists, and nothing else."""

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """The outcomes of fetches and listings, in their order."""


class SyncReader(Protocol):
    """The same for blocking callers."""

    def execute(self, ops: Sequence[Op]) -> list[Outcome]: ...


class Engine(Protocol):
    """A store. Created without I/O; used by one event loop of one process at a time."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Connect, and bring the schema up to date unless told not to.

        Raises `StoreUnavailable` if the store cannot be reached and `SchemaError` if what
        is there cannot be used. May be called again after `close`.
        """

    async def close(self) -> None:
        """Finish what is in progress, then let go of every thread, file and connection."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        """Execute a batch in one round trip; outcomes in the order of `ops`.

        `deadline`, by the monotonic clock, is a hint: no one waits for the answer any longer. An
        engine whose blocking calls could wait for a network gives up by then. One on a
        volume, which belongs to one replica at a time, applies no commit after it: see `volumes`.
        """

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Return when a log may be past its cursor, or after `timeout` seconds.

        Returns immediately if one already is. A wake-up is a hint and may be spurious.
        """

    async def migrate(self) -> Sequence[str]:
        """Bring the schema up to date; returns the names of the steps that were applied."""

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""

    def sibling(self) -> SyncEngine:
        """A blocking engine over the same store, with its own connections. No I/O.

        Leases are renewed through it, so that a busy event loop or a long queue costs no lease.
        """


class Reached(Protocol):
    """What an engine can do besides whose servers are reached by TCP: a proxy may stand between."""

    async def addresses(self) -> Sequence[tuple[str, int]]:
        """The host and port of every server, as its connections name them; none: not by TCP."""

    def through(self, url: str, ports: Sequence[int]) -> str:
        """Its URL by way of these ports of this machine, one for each address.

        The same URL, if its connections are made by the event loop: they can be led aside there.
        """


@runtime_checkable
class Traces(Protocol):
    """What an engine can do besides whose server shows all that it holds."""

    async def traces(self, text: str) -> Sequence[str]:
        """The keys or tables that have a text in them, whether or not any call still returns it.

        Does not need `open`.
        """


@runtime_checkable
class Creates(Protocol):
    """What an engine can do besides whose `open` makes a store where there is none."""

    def exists(self) -> bool:
        """Whether the store is there. Makes nothing, and does not need `open`."""


class Migrations(Protocol):
    """What an engine can do besides whose `migrate` runs SQL.

    Its URL takes `migrate=off`: then `open` makes and changes nothing, and raises `SchemaError`
    where something is missing.
    """

    async def pending_sql(self) -> str:
        """What `migrate` would run, for people who run it themselves; "" if there is nothing.

        Does not need `open`.
        """


@runtime_checkable
class SyncMigrations(Protocol):
    """The same for blocking callers."""

    def pending_sql(self) -> str: ...


class Snapshots(Protocol):
    """What an engine with `Capabilities.snapshots` can do besides."""

    def snapshot(self) -> AbstractAsyncContextManager[Reader]:
        """A reader for whom the whole store stands still, from its first look to its last.

        It has its own connection, disturbs no one, and may be used for as long as it
        takes to read everything; one caller at a time.
        """


class SyncSnapshots(Protocol):
    """The same for blocking callers."""

    def snapshot(self) -> AbstractContextManager[SyncReader]: ...


class Purges(Protocol):
    """What an engine with `Capabilities.purges` can do besides."""

    async def purge(self, namespace: str) -> int:
        """Remove all that a listing of the namespace shows; returns how many entities that were.

        Nothing remembers them afterwards: a write that was delayed until then brings an entity
        back, and old lease tokens are forgotten. Only for a namespace that no one uses any more.
        """


@runtime_checkable
class Namespaces(Protocol):
    """What an engine can do besides that knows all of a store, for whoever looks after it."""

    async def namespaces(self) -> Sequence[str]:
        """The namespaces of the store, by their bytes. One that was emptied may be among them."""


@runtime_checkable
class SyncNamespaces(Protocol):
    """The same for blocking callers."""

    def namespaces(self) -> Sequence[str]: ...


@runtime_checkable
class Parted(Protocol):
    """What an engine with `Capabilities.parts` can do besides."""

    def part_of(self, op: Op) -> Hashable:
        """Which part an operation is for, as far as is known: a hint, and no I/O.

        What is for one part is sent apart from what is for others, so that one that does not answer
        holds up no one else.
        """


class Schemas(Protocol):
    """What an engine with `Capabilities.schemas` can do besides. None of it needs `open`."""

    async def create_schema(self, note: str) -> None:
        """Create the schema of this engine's URL, which must not exist, and put the note on it."""

    async def marked_schemas(self, note: str) -> list[str]:
        """The names of the database's schemas that carry the note."""

    async def drop_schema(self, note: str) -> None:
        """Remove the schema of this engine's URL with all that is in it, if it carries the note.

        Raises `SchemaError` if it does not, and does nothing if it is not there.
        """


class SyncEngine(Protocol):
    """The same contract for blocking callers; any number of threads may call concurrently."""

    capabilities: Capabilities

    def open(self) -> None: ...
    def close(self) -> None: ...
    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]: ...
    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None: ...
    def migrate(self) -> Sequence[str]: ...
    def describe(self) -> Description: ...
    def sibling(self) -> SyncEngine: ...
