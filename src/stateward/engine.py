"""The contract between Stateward and a store. These docstrings are binding.

An engine executes a batch of operations (`ops.py`) in one round trip. Everything else in
Stateward is a layer over that one method. `stateward.testing.conformance` proves an engine.

The rules every engine keeps:

1.  **Durable when answered.** A commit is atomic, and durable to the declared level
    (`Description.durability`) before its outcome is returned. An answer that a server gave before
    it committed proves nothing: if the commit is refused, so is the batch.
2.  **A batch is not a transaction.** It holds at most one commit an entity; otherwise its
    operations are concurrent. What needs order goes into one commit.
3.  **Refusals are outcomes, never exceptions**: `Conflict`, `Duplicate`, `KeyReused`, `Held`,
    `Fenced`, `NotYours`, with the current values, and with nothing written. An exception
    means that the engine failed; `StoreUnavailable.applied` says whether any of the batch was
    applied: "no" or "unknown". `StoreUnavailable.is_busy` says that the store serves others.
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
    a failover that rewound is noticed even where the numbers agree. Every commit that is applied,
    whatever it writes, raises `Head.commits` by one and sets `Head.updated`; one that is refused or
    known already changes nothing. (`Restore` sets both itself.)
7.  **One clock: the engine's.** Order comes from numbers the engine assigns, expiry from its
    own clock, never from a caller's. An entity whose time has come does not exist for any
    operation; what it held is removed physically `GRACE` seconds later. Appending to one,
    or to a dropped one, starts a new life: version 0, no documents, no keys. Appending,
    acquiring or renewing the lease, and setting `retain` restart the retention; nothing
    expires while its lease is held.
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

GRACE = 86_400.0  # seconds a tombstone remains, so that late callers are refused
OPS_KEPT = 64
OPS_SECONDS = 600.0
OPS_MOST = 1024
MINUTE = 60.0  # the unit of the index of recent entities, which so changes rarely
OVERLAP = 10  # minutes: a commit enters that index at most this long after its time
CALL_SECONDS = 120.0  # longer than a call lives
KEY_SECONDS = 7 * 86_400.0
KEYS_KEPT = 100_000


class Capabilities(Struct, frozen=True):
    """How an engine differs from the others, as data. Code checks this, never the name."""

    durable: bool  # an acknowledged commit survives the process
    shared: bool  # several processes may use the same store concurrently
    inline_reads: bool = False  # reads answer without waiting: coalescing them gains nothing
    native_notify: bool = False  # `wait` is woken by the store, not by polling it
    atomic_listing: bool = True  # a listing by owner never misses an existing entity
    parallel_batches: int = 1  # batches worth having in flight at the same time
    batch: int = 256  # most operations worth sending in one batch
    parallel_reads: int = 0  # the same for batches of reads, if these are to be smaller
    read_batch: int = 0
    page: int = 200  # most entries worth reading in one fetch
    networked: bool = False  # a server that all replicas reach, not a file or memory of one
    snapshots: bool = False  # `snapshot` shows one moment of the whole store
    purges: bool = False  # `purge` removes a namespace immediately, and leaves no marks
    parts: bool = False  # one part may fail while the others answer: see `Parted`
    replicates: bool = False  # waits for replicas; see `Applied.replicated`
    migrates: bool = False  # its URL takes `migrate=off`: then `open` changes nothing
    schemas: bool = False  # one database can hold separate stores: see `Schemas`
    system: str = ""  # the store's name in metrics, e.g. "postgresql"; nothing else asks for it


class Description(Struct, frozen=True):
    """The description of a store: shown to people, read by the audit."""

    engine: str
    version: str
    schema: int
    durability: str  # one sentence: what survives which failure
    bytes: int | None = None
    settings: Mapping[str, Any] = {}
    rows: int | None = None  # entities, entries and documents, by a cheap estimate
    capacity: int | None = None  # the largest size in bytes
    parts: Mapping[str, Description] = {}  # of a layered store, by what lives there
    problem: str | None = None  # a promise of the URL that the store cannot keep now


def summed(parts: Mapping[str, Any]) -> Description:
    """Combine the descriptions, or the health records, of several stores."""
    sizes = [of.bytes for of in parts.values()]
    return Description(
        engine=" + ".join(of.engine for of in parts.values()),
        version=" + ".join(of.version for of in parts.values()),
        schema=min(of.schema for of in parts.values()),
        durability="; ".join(f"{name}: {of.durability}" for name, of in parts.items()),
        bytes=None if None in sizes else sum(sizes),
    )


class Reader(Protocol):
    """The reading half of an engine."""

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """Return the outcomes of fetches and listings, in their order."""


class SyncReader(Protocol):
    """`Reader` for blocking callers."""

    def execute(self, ops: Sequence[Op]) -> list[Outcome]: ...


class Engine(Protocol):
    """A store. Created without I/O; used by one event loop of one process at a time."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Connect, and bring the schema up to date unless `migrate=off`.

        Raises `StoreUnavailable` if the store cannot be reached and `SchemaError` if what
        is there cannot be used. May be called again after `close`.
        """

    async def close(self) -> None:
        """Finish batches in progress, then close every thread, file and connection."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        """Execute a batch in one round trip; outcomes in the order of `ops`.

        `deadline`, by the monotonic clock, is a hint: no caller waits for the answer longer. An
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
        """Return versions, durability, settings and sizes, read from the store itself."""

    def sibling(self) -> SyncEngine:
        """Return a blocking engine over the same store, with its own connections. No I/O.

        Leases are renewed through it, so that a busy event loop or a long queue costs no lease.
        """


class Reached(Protocol):
    """An engine whose servers are reached by TCP, so that a proxy can be put in between."""

    async def addresses(self) -> Sequence[tuple[str, int]]:
        """Return host and port of every server, as connections name them; none if not by TCP."""

    def through(self, url: str, ports: Sequence[int]) -> str:
        """Return the URL for these ports of this machine, one for each address.

        The URL is unchanged if the event loop makes the connections: it can redirect them.
        """


@runtime_checkable
class Traces(Protocol):
    """An engine whose server can be searched for everything it stores."""

    async def traces(self, text: str) -> Sequence[str]:
        """Return the keys or tables that contain a text, even where no call returns it.

        Does not need `open`.
        """


@runtime_checkable
class Creates(Protocol):
    """An engine whose `open` creates a store that does not exist."""

    def exists(self) -> bool:
        """Return whether the store exists. Creates nothing, and does not need `open`."""


class Migrations(Protocol):
    """An engine whose `migrate` runs SQL.

    Its URL takes `migrate=off`: then `open` changes nothing, and raises `SchemaError` if something
    is missing.
    """

    async def pending_sql(self) -> str:
        """Return the SQL that `migrate` would run, for people who run it themselves; "" if none.

        Does not need `open`.
        """


@runtime_checkable
class SyncMigrations(Protocol):
    """`Migrations` for blocking callers."""

    def pending_sql(self) -> str: ...


class Snapshots(Protocol):
    """An engine with `Capabilities.snapshots`."""

    def snapshot(self) -> AbstractAsyncContextManager[Reader]:
        """Return a reader that sees the whole store as of its first read.

        It has its own connection, blocks no other call, and may be used for as long as it
        takes to read everything; one caller at a time.
        """


class SyncSnapshots(Protocol):
    """`Snapshots` for blocking callers."""

    def snapshot(self) -> AbstractContextManager[SyncReader]: ...


class Purges(Protocol):
    """An engine with `Capabilities.purges`."""

    async def purge(self, namespace: str) -> int:
        """Remove all entities that a listing of the namespace shows; returns their number.

        No tombstones remain: a delayed write brings an entity back, and old lease tokens are
        forgotten. Only for a namespace that is no longer in use.
        """


@runtime_checkable
class Namespaces(Protocol):
    """An engine that can list the namespaces of its store, for administration."""

    async def namespaces(self) -> Sequence[str]:
        """Return the namespaces of the store, by their bytes. Empty ones may be included."""


@runtime_checkable
class SyncNamespaces(Protocol):
    """`Namespaces` for blocking callers."""

    def namespaces(self) -> Sequence[str]: ...


@runtime_checkable
class Parted(Protocol):
    """An engine with `Capabilities.parts`."""

    def part_of(self, op: Op) -> Hashable:
        """Return the part that an operation is for, as far as known: a hint, without I/O.

        Operations for different parts are sent separately, so that a part that does not answer
        delays only its own.
        """


class Schemas(Protocol):
    """An engine with `Capabilities.schemas`. No method needs `open`."""

    async def create_schema(self, note: str) -> None:
        """Create the schema of this engine's URL, which must not exist, and put the note on it."""

    async def marked_schemas(self, note: str) -> list[str]:
        """Return the names of the database's schemas that have the note."""

    async def drop_schema(self, note: str) -> None:
        """Remove the schema of this engine's URL with everything in it, if it has the note.

        Raises `SchemaError` if it does not have it, and does nothing if there is no such schema.
        """


class SyncEngine(Protocol):
    """`Engine` for blocking callers; any number of threads may call concurrently."""

    capabilities: Capabilities

    def open(self) -> None: ...
    def close(self) -> None: ...
    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]: ...
    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None: ...
    def migrate(self) -> Sequence[str]: ...
    def describe(self) -> Description: ...
    def sibling(self) -> SyncEngine: ...
